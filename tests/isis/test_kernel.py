"""What a kernel asks of the group service beneath it."""

from __future__ import annotations

import pytest

from isotone.core import boundary as b4
from isotone.core.bundles import bundle_of
from isotone.core.contract import Action, Event
from isotone.core.ids import ClientId, DaemonId
from isotone.core.services import Service
from isotone.isis.kernel import Kernel
from isotone.isis.life import Life
from isotone.isis.settings import IsisSettings
from isotone.sim.isis.node import IsisNode
from isotone.sim.plan import Size
from isotone.sim.registry import system_named
from isotone.sim.run import run_plan
from isotone.sim.system import Setting, draw_plan

SMALL = Setting(system="isis", stack="oracle", size=Size.SMALL)
CLIENT = ClientId(DaemonId("d", 1), "a", 1)


def test_kernels_ask_for_fifo_sends_to_private_groups_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Besides these: a session, and the group in which they find each other."""
    asked: list[b4.Request] = []
    handle = Kernel.handle

    def handled(kernel: Kernel, event: Event) -> list[Action]:
        actions = handle(kernel, event)
        asked.extend(action.request for action in actions if isinstance(action, b4.Ask))
        return actions

    monkeypatch.setattr(Kernel, "handle", handled)
    system = system_named("isis")
    assert run_plan(system, draw_plan(system, SMALL, 1)).violations == ()
    sends = [request.bundle for request in asked if isinstance(request, b4.Send)]
    assert len(sends) > 100
    assert {bundle.service for bundle in sends} == {Service.FIFO}
    assert all(len(bundle.groups) == 1 and bundle.groups[0].startswith("#") for bundle in sends)
    others = [request for request in asked if not isinstance(request, b4.Send)]
    assert {request.group for request in others if isinstance(request, b4.Join)} == {"$isis/isis"}
    assert all(isinstance(request, b4.Connect | b4.Disconnect | b4.Join) for request in others)


def test_a_run_says_so_when_a_kernel_asks_for_more() -> None:
    settings = IsisSettings("a", ("a", "b", "c"))
    kernel = Kernel(CLIENT.daemon, settings)
    kernel.life = Life(settings, "a.1")
    bundle = bundle_of(CLIENT, 1, Service.AGREED, ("#b#d",), (b"x",))
    kernel.handle = lambda event: [b4.Ask(CLIENT, b4.Send(bundle))]  # type: ignore[method-assign]
    node = IsisNode(kernel, {}, lambda site, action: None)
    node.handle(b4.Indicated(0, (CLIENT,), b4.Disconnected("")))
    assert "asked AGREED to #b#d at B4" in node.missing()
