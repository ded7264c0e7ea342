"""Keys in their order, queues by what is free and dicts by owner: the same as by looking through all of it."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotone.replicated import sorted_keys
from isotone.replicated.dict_state import DictState
from isotone.replicated.outcome import Context
from isotone.replicated.records import Closed
from isotone.replicated.small_states import QueueState
from isotone.replicated.sorted_keys import SortedKeys
from tests.replicated.test_machine import Script

KEYS = st.text(alphabet="abé\U0001f600", max_size=3)


@given(st.lists(KEYS, max_size=30), st.lists(KEYS, max_size=60), KEYS)
def test_keys_come_and_go_and_a_prefix_is_found(first: list[str], toggled: list[str], prefix: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorted_keys, "BLOCK", 2)
        known = set(first)
        keys = SortedKeys(known)
        for key in toggled:
            if key in known:
                known.remove(key)
                keys.remove(key)
            else:
                known.add(key)
                keys.add(key)
        assert list(keys.beginning(prefix)) == sorted(key for key in known if key.startswith(prefix))
        assert list(keys.beginning("")) == sorted(known)


@pytest.mark.parametrize("seed", range(3))
def test_a_queue_that_was_used_serves_as_one_that_was_read_from_a_snapshot(seed: int) -> None:
    """`Script` compares every answer with that of a machine that knows the snapshot alone."""
    chance, script = random.Random(seed), Script()
    sessions = [script.open(lease=100) for _ in range(3)]
    taken: list[tuple[int, int]] = []
    for _ in range(150):
        session = chance.choice(sessions)
        deed = chance.choice(["put", "put", "take", "take", "done", "give_back", "close"])
        if deed == "put":
            script.call(session, "queue", "jobs", "put", b"x")
        elif deed == "take":
            for answer in script.call(session, "queue", "jobs", "take", chance.random() < 0.3):
                if answer.value:
                    taken.append((answer.value[0], answer.value[2]))
        elif deed == "close" and chance.random() < 0.3:
            script.put(Closed(session))
            sessions[sessions.index(session)] = script.open(lease=100)
        elif deed in ("done", "give_back") and taken:
            script.call(session, "queue", "jobs", deed, *chance.choice(taken))
    state = script.machine.state.objects["jobs"]
    assert isinstance(state, QueueState)
    free = [number for number, item in state.items.items() if not item.taker]
    assert free == sorted(free) and not (free and state.takers)


@pytest.mark.parametrize("seed", range(3))
def test_a_dict_that_was_used_is_as_one_that_was_read_from_a_snapshot(seed: int) -> None:
    chance, script = random.Random(seed), Script()
    sessions = [script.open(lease=100) for _ in range(3)]
    for _ in range(150):
        session, key = chance.choice(sessions), f"k{chance.randrange(12)}"
        deed = chance.choice(["set", "set", "delete", "transact", "close"])
        if deed == "set":
            script.call(session, "dict", "d", "set", key, b"x", chance.random() < 0.5)
        elif deed == "delete":
            script.call(session, "dict", "d", "delete", key)
        elif deed == "transact":
            script.call(session, "dict", "d", "transact", [], [[key, None], ["k0", b"y"]], [])
        elif chance.random() < 0.3:
            script.put(Closed(session))
            sessions[sessions.index(session)] = script.open(lease=100)
        state = script.machine.state.objects.get("d")
        if isinstance(state, DictState):
            prefix = chance.choice(["", "k1", "x"])
            wanted = sorted(each for each in state.entries if each.startswith(prefix))
            assert list(state.values(prefix)) == wanted


def test_what_a_session_owned_goes_in_the_order_of_keys() -> None:
    context = Context(1, 7, 1, None, None, b"", 0)  # type: ignore[arg-type]
    state = DictState()
    for key in "cab":
        state.apply(context, "set", (key, b"", True))
    state.release(context, 7)
    assert [each.key for each in state.changes[-3:]] == ["a", "b", "c"] and not state.entries
