"""Runs in which one daemon sleeps now and then and nothing else happens: it must blame itself and nobody else.

No property of EVS says who may be suspected, so the swarm cannot see a daemon that wakes up and suspects everybody:
views are left, formed again, and right. This prints the JSON object of a swarm for the one property that does:

    SLEEPER   a daemon that slept while all others were awake leaves no daemon view for a suspicion of its own

    python -m tests.planted.sleepers --seeds 1..20
"""

from __future__ import annotations

import argparse
import json
import sys

import msgspec

from isotone.evs.membership.states import Reason
from isotone.sim.evs_system import EvsSystem
from isotone.sim.faults import Fault, Pause, Resume
from isotone.sim.full_system import FullRun
from isotone.sim.plan import Plan, Size
from isotone.sim.run import run_plan
from isotone.sim.system import BuiltSystem, Setting, draw_plan
from isotone.sim.world import World

SLEEPER = "SLEEPER"
SETTING = Setting(system="evs", stack="full", size=Size.SMALL, faults="pause")


class _Kept(EvsSystem):
    """Keeps what it built, to be looked at after the run."""

    built: FullRun

    def build(self, world: World, plan: Plan) -> BuiltSystem:
        built = super().build(world, plan)
        assert isinstance(built, FullRun)
        self.built = built
        return built


def suspicions_of_sleeper(seed: int) -> int | None:
    """How often the one that slept left a daemon view because it suspected somebody; None when nobody slept."""
    system = _Kept()
    plan = draw_plan(system, SETTING, seed)
    sleeper = next((fault.node for fault in plan.faults if isinstance(fault, Pause)), None)
    if sleeper is None:
        return None
    kept: list[Fault] = [fault for fault in plan.faults if isinstance(fault, Pause | Resume) and fault.node == sleeper]
    run_plan(system, msgspec.structs.replace(plan, faults=tuple(kept)))
    return system.built._stack(sleeper).membership.node.entries[Reason.MEMBER_SUSPECTED]


def main() -> int:
    """All seeds, as one object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="1..20")
    first, _, last = parser.parse_args().seeds.partition("..")
    seeds = range(int(first), int(last or first) + 1)
    guilty = [seed for seed in seeds if suspicions_of_sleeper(seed)]
    properties = {SLEEPER: {"holds": len(seeds) - len(guilty), "violated": len(guilty)}}
    failures = [{"seed": seed, "property": SLEEPER} for seed in guilty]
    print(json.dumps({"properties": properties, "failures": failures}))
    return 1 if guilty else 0


if __name__ == "__main__":
    sys.exit(main())
