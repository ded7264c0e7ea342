"""Record a run, read it back from the file, and judge it again."""

import tempfile
from pathlib import Path

from isotone.sim.plan import Size
from isotone.sim.replay import plan_of, replay
from isotone.sim.system import Setting
from isotone.spec.check import check
from isotone.trace.events import Row
from isotone.trace.jsonl import write_jsonl
from isotone.trace.reader import read


def main() -> None:
    rows: list[Row] = []
    result = replay(plan_of("3", Setting(size=Size.SMALL)), sink=rows.append)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "run3.jsonl"
        write_jsonl(path, "run3", rows)
        report = check(read([path]))
    agreed = all(
        report.verdicts[label].state.value == state
        for label, state in result.verdicts.items()
        if label in report.verdicts
    )
    print(f"{len(rows)} rows recorded, {len(report.verdicts)} properties judged again, the same verdicts: {agreed}")


if __name__ == "__main__":
    main()
