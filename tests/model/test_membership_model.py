"""The membership of 2 and 3 daemons as it is, through a crash, a restart, a partition and a merge.

Each search begins in an installed daemon view of all, reached on the regular schedule, with an AGREED and a SAFE unit
just submitted. *Regular* are: packets, link by link, the oldest link first; then what detectors find out; then the
timer that is due first. A *departure* is any other link or event first (so a timer that does not wait for packets that
are late), or the loss of all that is under way on a link. The faults come in their order, each at any point; where it
makes no difference whether a delivery comes before or behind a fault, one of both is tried.
Every search runs to its end: until nothing is left to happen, which has to
be one daemon view of all who reach each other. What is "to a depth" are the departures: each of the searches below has
all runs with at most so many.

In every state: no assertion failed; self inclusion, local monotonicity, agreement on ids and members, transitional
sets, no unit twice, one order, virtual synchrony.

Sides of a cut may overlap: of "ab c" cut into "ab ac", c is reached through a alone, the gateway of its site.

Left out: the detector (its verdicts are events: whoever is away is suspected at some point, whoever is there is asked
and answers), so false suspicions; more departures than the table of searches says; merges of three
whose cut comes later than at once; reordering and
doubling within a link, which `isotone.sim` has; syncs that take time; clocks that disagree; links over TCP.

Reference: [Spread 6.2, Theorems 6.1 to 6.14].
"""

from __future__ import annotations

import pytest

from isotone.core.ids import DaemonViewId
from isotone.core.services import Service
from isotone.evs.membership import gather
from isotone.evs.membership.recovering import Recovering
from isotone.sim.explorer import Exploration, explore
from tests.model.membership_model import MembershipModel

TALK = (("a", Service.AGREED), ("b", Service.SAFE))


def search(sites: str, *faults: str, first: tuple[str, ...] = (), departures: int = 0) -> Exploration:
    return explore(MembershipModel(sites, faults, departures, TALK, first), limit=20_000)


SEARCHES = [
    ("ab", (), ("crash a",), 2, (2_596, 3_896)),
    ("a b", (), ("crash b",), 2, (2_053, 2_875)),
    ("a b", (), ("crash a", "restart a"), 0, (511, 518)),
    ("ab", (), ("cut a b", "heal"), 0, (1_049, 1_072)),
    ("a b", (), ("cut a b", "heal"), 0, (1_192, 1_211)),
    ("a b", ("cut a b",), ("heal",), 1, (3_978, 4_089)),
    ("abc", (), ("crash a",), 1, (4_269, 4_638)),
    ("ab c", (), ("crash a",), 0, (326, 331)),
    ("a b c", (), ("crash b",), 0, (230, 238)),
    ("abc", ("cut a bc",), ("heal",), 0, (675, 686)),
    ("ab c", ("cut a bc",), ("heal",), 0, (1_075, 1_082)),
    ("a b c", ("cut ab c",), ("heal",), 0, (1_082, 1_089)),
    ("ab c", ("cut ab ac",), ("heal",), 0, (1_351, 1_354)),
    ("ab c", ("cut ab ac",), ("crash c",), 0, (741, 755)),
    ("ab c", (), ("cut ab ac", "crash a"), 0, (1_738, 1_803)),
]


@pytest.mark.parametrize(("sites", "first", "faults", "departures", "pinned"), SEARCHES)
def test_every_run_is_safe_and_ends_together(
    sites: str, first: tuple[str, ...], faults: tuple[str, ...], departures: int, pinned: tuple[int, int]
) -> None:
    found = search(sites, *faults, first=first, departures=departures)
    assert found.violation is None, str(found.violation)
    assert found.complete and found.deadlocks == 0
    assert (found.states, found.transitions) == pinned


# --- wrong rules ------------------------------------------------------------------------------------------------------


def test_an_id_that_is_used_again_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    model = MembershipModel("a b", ("crash b",), 0, TALK)
    begun = list(model.initial())  # by the right rules
    monkeypatch.setattr(model, "initial", lambda: begun)
    monkeypatch.setattr(gather, "DaemonViewId", lambda epoch, me: DaemonViewId(epoch - 1, me))
    found = explore(model, limit=500)
    assert found.violation is not None and found.violation.problem.startswith("local monotonicity: ")


def test_a_transitional_set_of_all_members_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    enter = Recovering._enter_evs

    def sociable(self: Recovering) -> None:
        enter(self)
        self._together = tuple(self.node.members)

    model = MembershipModel("a b", ("heal",), 0, TALK, ("cut a b",))
    begun = list(model.initial())
    monkeypatch.setattr(model, "initial", lambda: begun)
    monkeypatch.setattr(Recovering, "_enter_evs", sociable)
    found = explore(model, limit=500)
    assert found.violation is not None and found.violation.problem.startswith("transitional set: ")
