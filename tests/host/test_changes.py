"""Changes of the servers, from the request to its answer."""

from __future__ import annotations

import asyncio

import pytest

from isotone.corel.events import ConfigurationChanged, ReconfigurationAnswered
from isotone.host.answers import Maybe, Refused
from isotone.host.changes import Changes


def test_of_two_that_were_accepted_at_once_the_later_is_refused() -> None:
    async def main() -> None:
        changes = Changes(str)
        first, added = changes.begin(add="x", remove="", is_patient=True)
        second, removed = changes.begin(add="", remove="c", is_patient=True)
        changes.on_changed(ConfigurationChanged(0, ("a", "b", "c"), "an earlier one, told late"))
        for request in (first, second):
            changes.on_answered(ReconfigurationAnswered(request, True, ""))
        assert not added.done() and not removed.done()
        changes.on_changed(ConfigurationChanged(1, ("a", "b", "c", "x"), "majority"))
        await added
        with pytest.raises(Refused, match="another change came first"):
            await removed

    asyncio.run(main())


def test_what_is_refused_and_what_nobody_knows() -> None:
    async def main() -> None:
        changes = Changes(str)
        first, refused = changes.begin(add="x", remove="", is_patient=True)
        _, unknown = changes.begin(add="y", remove="", is_patient=True)
        changes.on_answered(ReconfigurationAnswered(first, False, "it has not caught up"))
        with pytest.raises(Refused, match="not caught up"):
            await refused
        changes.end("the disk failed")
        with pytest.raises(Maybe, match="the disk failed"):
            await unknown
        changes.on_answered(ReconfigurationAnswered(7, True, ""))  # of nobody

    asyncio.run(main())


def test_a_change_of_the_rule_is_known_by_the_rule() -> None:
    async def main() -> None:
        changes = Changes(str)
        first, mine = changes.begin(add="", remove="", is_patient=True)
        second, other = changes.begin(add="", remove="", is_patient=True)
        changes.on_answered(ReconfigurationAnswered(first, True, "", b"one"))
        changes.on_answered(ReconfigurationAnswered(second, True, "", b"two"))
        changes.on_changed(ConfigurationChanged(1, ("a", "b"), "in words", b"one"))
        await mine
        with pytest.raises(Refused, match="another change came first"):
            await other

    asyncio.run(main())
