"""The simulator: whole clusters in virtual time, reproducible from a seed. See ``docs/protocols/simulator.md``."""

from isotone.sim.automata_model import AutomataModel, Budgets, SystemState
from isotone.sim.cluster import Cluster
from isotone.sim.disk import DiskSettings
from isotone.sim.explorer import Counterexample, Exploration, Model, explore
from isotone.sim.links import LinkSettings
from isotone.sim.network import NetworkSettings
from isotone.sim.observer import Observer
from isotone.sim.process import Boot, ClockSettings, Program, RunFailed
from isotone.sim.streams import StreamSettings
from isotone.sim.world import World

__all__ = [
    "AutomataModel",
    "Boot",
    "Budgets",
    "ClockSettings",
    "Cluster",
    "Counterexample",
    "DiskSettings",
    "Exploration",
    "LinkSettings",
    "Model",
    "NetworkSettings",
    "Observer",
    "Program",
    "RunFailed",
    "StreamSettings",
    "SystemState",
    "World",
    "explore",
]
