"""Every system that the swarm can run, in one place: a new system is one more line here."""

from __future__ import annotations

from collections.abc import Mapping

from isotone.core.errors import InputError
from isotone.sim.corel_system import CorelSystem
from isotone.sim.evs_system import EvsSystem
from isotone.sim.flows.system import FlowsSystem
from isotone.sim.hab.system import HabSystem
from isotone.sim.isis.system import IsisSystem
from isotone.sim.plan import Plan, decode_plan, read_header
from isotone.sim.replicated.system import ReplicatedSystem
from isotone.sim.synchrony.system import SynchronySystem
from isotone.sim.system import System
from isotone.sim.toolkit.system import ToolkitSystem

SYSTEMS: Mapping[str, System] = {
    "evs": EvsSystem(),
    "corel": CorelSystem(),
    "replicated": ReplicatedSystem(),
    "flows": FlowsSystem(),
    "isis": IsisSystem(),
    "toolkit": ToolkitSystem(),
    "hab": HabSystem(),
    "synchrony": SynchronySystem(),
}


def system_named(name: str) -> System:
    """The system of this name, or an `InputError` that lists those there are."""
    system = SYSTEMS.get(name)
    if system is None:
        raise InputError(f"there is no system {name!r}; there is {', '.join(SYSTEMS)}")
    return system


def plan_from(data: bytes) -> Plan:
    """Read a plan of any system."""
    system = system_named(read_header(data).system)
    plan = decode_plan(data, system.step_type)
    if plan.stack not in system.stacks:
        raise InputError(f"system {system.name} has no stack {plan.stack!r}; it has {', '.join(system.stacks)}")
    return plan
