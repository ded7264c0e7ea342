"""Servers that are asked for a repair: one that cannot be reached costs its time once."""

from __future__ import annotations

import pytest

from isotone.core.errors import MachineError
from isotone.host import peers
from isotone.host.log_client import RemoteLog


class Fake(RemoteLog):
    """The server at ``here:1`` answers, the one at ``gone:1`` does not."""

    tried: list[str]

    async def __aenter__(self) -> Fake:
        self.tried.append(self.addresses[0])
        if self.addresses[0] == "gone:1":
            raise MachineError("no server of the log answers")
        return self

    async def primaries(self) -> list:  # type: ignore[override,type-arg]
        raise MachineError("it cannot tell")

    async def forcings(self) -> list:  # type: ignore[override,type-arg]
        return []


def test_only_a_server_that_answers_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "RemoteLog", Fake)
    monkeypatch.setattr(Fake, "tried", [], raising=False)
    asked = peers.Peers({"a": "gone:1", "b": "here:1"})
    assert asked.primaries() == []
    assert asked.forcings() == []
    assert Fake.tried == ["gone:1", "here:1", "here:1"]
    assert asked.reasons == {"a": "no server of the log answers", "b": "it cannot tell"}
