"""A run is a plan, and a plan is a value: draw one from a seed, replace its faults, play it."""

import msgspec

from isotone.sim.faults import Crash, Heal, Partition, Restart
from isotone.sim.plan import Size
from isotone.sim.replay import plan_of, replay
from isotone.sim.system import Setting
from isotone.trace.events import Row, ViewDelivered


def main() -> None:
    drawn = plan_of("17", Setting(size=Size.SMALL, nodes="3"))
    faults = (
        Partition(at=300_000, sides=(("d1", "d2"), ("d3",))),
        Crash(at=500_000, node="d2"),
        Restart(at=700_000, node="d2"),
        Heal(at=900_000),
    )
    rows: list[Row] = []
    result = replay(msgspec.structs.replace(drawn, faults=faults), sink=rows.append)
    views = sum(isinstance(row.entry, ViewDelivered) for row in rows)
    print(f"{result.messages} messages, {views} views installed, from {result.view_changes} daemon views")
    print("violated:", [violation.property for violation in result.violations])


if __name__ == "__main__":
    main()
