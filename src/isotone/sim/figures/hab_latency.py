"""How long a broadcast takes over four data centres in a chain, in multiples of the delay of one link; a take-over and
a hand-over, by step.

The chain is that of [Spread 5.3]: a — b — c — d, each link with the same delay, so that a and d are three apart.
"""

from __future__ import annotations

from typing import Any

from isotone.hab.events import DeclareWanted, HandoverWanted
from isotone.sim.figures.hab_table import DELAY_US, SETTLE_US, Trial
from isotone.sim.hab.operator import LABEL
from isotone.trace.hab import HaDeclared, HaDelivered, HaRole

CHAIN = ("a", "b", "c", "d")


def _chain() -> Trial:
    delays = {(one, other): abs(ord(one) - ord(other)) * DELAY_US for one in CHAIN for other in CHAIN if one < other}
    return Trial((3, 3, 3, 3), delays=delays)


def hab_latency() -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """From each centre: when the primary a and each backup deliver; then the steps of a take-over and a hand-over."""
    rows: list[dict[str, Any]] = []
    for source in CHAIN:
        trial = _chain()
        trial.rows.clear()
        began = trial.broadcast(f"{source}2")
        trial.world.run_for(SETTLE_US)
        delivered = trial.delivered()
        for centre in CHAIN:
            times = [at for name, at in delivered.items() if name[0] == centre]
            rows.append({"step": "deliver", "source": source, "centre": centre, "delays": _delays(max(times) - began)})
    return {"delay_us": DELAY_US, "chain": "-".join(CHAIN)}, [*rows, *_take_over(), *_hand_over()]


def _delays(duration: int) -> float:
    return round(duration / DELAY_US, 2)


def _take_over() -> list[dict[str, Any]]:
    trial = _chain()
    for name in ("a1", "a2", "a3"):
        trial.world.crash(name)
    trial.rows.clear()
    began = trial.world.now
    trial.world.tell("c1", LABEL, DeclareWanted(0, "a"))
    trial.broadcast("b2")
    trial.world.run_for(10 * SETTLE_US)
    found: dict[str, int] = {}
    for row in trial.rows:
        match row.entry:
            case HaDeclared(effective=True):
                found.setdefault("effective", row.at)
            case HaRole(centre="b", role="transition"):
                found.setdefault("transition", row.at)
            case HaRole(centre="b", role="primary"):
                found.setdefault("primary", row.at)
            case HaDelivered(centre="b"):
                found.setdefault("first delivery in the new primary", row.at)
    return [{"step": step, "source": "c", "centre": "b", "delays": _delays(at - began)} for step, at in found.items()]


def _hand_over() -> list[dict[str, Any]]:
    """From a to d, which is farthest away, while both broadcast: in one round trip between these two."""
    trial = _chain()
    trial.broadcast("b2")  # something must have been confirmed in this epoch
    trial.world.run_for(SETTLE_US)
    trial.rows.clear()
    began = trial.world.now
    trial.world.tell("a1", LABEL, HandoverWanted(0, "d"))
    trial.world.run_for(1_000)  # both broadcast behind it
    for node in ("a2", "d2"):
        trial.broadcast(node)
    trial.world.run_for(SETTLE_US)
    found: dict[tuple[str, str], int] = {}
    for row in trial.rows:
        match row.entry:
            case HaRole(centre="d", role="primary"):
                found.setdefault(("hand-over: the next one leads", "d"), row.at)
            case HaRole(centre="a", role="backup"):
                found.setdefault(("hand-over: the one before follows", "a"), row.at)
            case HaDelivered(centre="a" | "d" as centre):
                for message in row.entry.messages:
                    found.setdefault((f"hand-over: a broadcast of {message[0]} is delivered", centre), row.at)
    assert set(trial.records().values()) == {2}, "nothing is lost, and nothing comes twice"
    return [
        {"step": step, "source": "a", "centre": centre, "delays": _delays(at - began)}
        for (step, centre), at in found.items()
    ]
