"""Daemons of two protocol versions in a small world, and a version 2 that exists for tests alone.

In a daemon view that runs at version 2 the body of every bundle, fragment and message of the groups begins with `TAG`;
it is put on when the unit is stamped, since only then is it settled in which daemon view it travels. Whoever is in a
daemon view at version 1 cannot read that, and whoever is at version 2 reads nothing else: each such unit is a *breach*.
So is a daemon view that does not run at the highest version that all its members speak.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from itertools import count
from typing import Any

import msgspec
import pytest

from isotone.core.choice import Choice
from isotone.core.contract import Action, Automaton
from isotone.core.ids import DaemonId
from isotone.core.services import Service
from isotone.core.versions import VersionRange, highest_common
from isotone.evs.boundary import DeliverDaemonView, DeliverUnits
from isotone.evs.explain import ExclusionAnswer, status, why_excluded
from isotone.evs.membership import dispatch, transfer
from isotone.evs.membership.network import Network
from isotone.evs.ordering.stamper import Draft, Stamper
from isotone.evs.ordering.units import Unit, UnitKind
from isotone.evs.stack import Stack, StackSettings
from isotone.sim.full_cluster import FullCluster, ShownStack
from isotone.sim.process import CLIENTS_LABEL, SERVICE_LABEL, Boot
from isotone.sim.scripted import ScriptedClients
from isotone.spec.check import check

OLD, NEW, LATER = VersionRange(1, 1), VersionRange(1, 2), VersionRange(2, 2)
TAG = b"\xffversion 2\xff"
TOGETHER_LIMIT_MS = 30_000
GROUP = "g"


class NextStamper(Stamper):
    """Stamps as version 2 does."""

    def _stamp(self, draft: Draft, sequence: int, lamport: int) -> Unit:
        unit = super()._stamp(draft, sequence, lamport)
        if unit.kind is UnitKind.MEMBERSHIP:
            return unit
        return msgspec.structs.replace(unit, body=TAG + bytes(unit.body))


class NextNetwork(Network):
    """The network of a program that knows version 2: what it sends depends on the version of the daemon view alone."""

    def __init__(self, *arguments: Any, version: int, **others: Any) -> None:
        super().__init__(*arguments, version=version, **others)
        if version == 2:
            self.transport.stamper.__class__ = NextStamper


def teach_version_2(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on daemon views at version 2 have their own form of units."""
    for module in (transfer, dispatch):
        monkeypatch.setattr(module, "Network", NextNetwork)


class VersionedStack(Stack):
    """A daemon that reads the form of its daemon view and no other."""

    breaches: list[str]
    ranges: dict[DaemonId, VersionRange]
    installed: list[DeliverDaemonView]
    read: dict[int, int]  # units by the version of their daemon view

    def _passed(self, action: Action, at: int) -> list[Action] | None:
        if isinstance(action, DeliverDaemonView):
            self._judge(action)
        elif isinstance(action, DeliverUnits):
            action = DeliverUnits([self._read(unit) for unit in action.units])
        return super()._passed(action, at)

    def _judge(self, action: DeliverDaemonView) -> None:
        self.installed.append(action)
        due = highest_common(self.ranges[member] for member in action.view.members)
        if action.version != due:
            self.breaches.append(f"{self.me}: {action.view} runs at {action.version} and not at {due}")

    def _read(self, unit: Unit) -> Unit:
        version = self.installed[-1].version
        self.read[version] = self.read.get(version, 0) + 1
        body = bytes(unit.body)
        if body.startswith(TAG) != (version == 2):
            self.breaches.append(f"{self.me}: at version {version} in {self.installed[-1].view.id} came {body[:20]!r}")
        return msgspec.structs.replace(unit, body=body.removeprefix(TAG))


class UpgradeCluster(FullCluster):
    """Daemons whose versions, names and identities the test says; each has a client of its own name in one group."""

    def __init__(self, sites: Mapping[str, str], *, seed: int | str = 1) -> None:
        self.versions = dict.fromkeys(sites, OLD)
        self.names = {name: name for name in sites}  # what a daemon calls itself
        self.identities = {name: name for name in sites}
        self.breaches: list[str] = []
        self.ranges: dict[DaemonId, VersionRange] = {}
        self.installed: dict[str, list[DeliverDaemonView]] = {name: [] for name in sites}
        self.read: dict[int, int] = {}
        self.sent: dict[DaemonId, list[bytes]] = {}  # all but UNRELIABLE, by the incarnation of its daemon
        self._later: dict[str, int] = {}  # of those whose incarnation is another than the world counts
        self._numbers = count(1)
        self._choice = Choice(f"sizes/{seed}")
        super().__init__(*sites, seed=seed, sites=sites, settings=StackSettings(pruning=False))
        for name in sites:
            self.join(name, name, GROUP)

    def _program(self, boot: Boot) -> Mapping[str, Automaton]:
        node = boot.daemon.name
        me = DaemonId(self.names[node], boot.daemon.incarnation + self._later.get(node, 0))
        stack = VersionedStack(
            me=me,
            identity=blake2b(self.identities[node].encode(), digest_size=16).digest(),
            site=boot.site,
            address=boot.address,
            settings=self._settings_of(node),
        )
        self.ranges[me] = self.versions[node]
        stack.breaches, stack.ranges, stack.read = self.breaches, self.ranges, self.read
        stack.installed = self.installed[node]
        return {SERVICE_LABEL: ShownStack(stack, self._remark, None), CLIENTS_LABEL: ScriptedClients(boot.daemon)}

    def _settings_of(self, node: str) -> StackSettings:
        """A daemon with a name that is not its own leaves no record: its rows would be those of the other."""
        settings, replace = self._prepared(), msgspec.structs.replace
        changed = replace(settings.membership, versions=self.versions[node], record=self.names[node] == node)
        return replace(settings, membership=changed)

    # --- doing -----------------------------------------------------------------------------------------------------

    def add(self, node: str, site: str, *, name: str, identity: str, incarnation: int = 1) -> None:
        """One more daemon, which nobody expects and which says that it is somebody."""
        self.versions[node], self.names[node], self.identities[node] = OLD, name, identity
        self.installed[node], self._later[node] = [], incarnation - 1
        self.world.add_process(node, self._program, site=site)

    def restart_at(self, node: str, versions: VersionRange, *, crash: bool = False) -> None:
        """End a daemon, and start it with these versions."""
        if self.world.is_up(node):
            (self.crash if crash else self.stop)(node)
            self.talk_for(200)
        if self.world.is_up(node):  # it had much to keep
            self.crash(node)
        self.versions[node] = versions
        self.restart(node)
        self.join(node, node, GROUP)

    def talk_for(self, ms: float) -> None:
        """Everybody who runs sends by all services, again and again."""
        end = self.now_ms + ms
        while self.now_ms < end:
            for node in self.running:
                self.talk(node)
            self.run_for(40)

    def talk(self, node: str) -> None:
        """One bundle of each service, some larger than a packet."""
        for service in Service:
            body = f"{node} {next(self._numbers)} {service.name} ".encode()
            body += bytes(self._choice.below(100) if self._choice.below(20) else 3_000)
            self.send(node, node, GROUP, body, service=service)
            if service is not Service.UNRELIABLE:
                self.sent.setdefault(self.world.daemon(node), []).append(body)

    def run_until_together(self, *nodes: str) -> None:
        """Until exactly these are in one daemon view that works."""
        end = self.now_ms + TOGETHER_LIMIT_MS
        while not self.are_together(nodes):
            assert self.now_ms < end, self.tell_why(nodes)
            self.run_for(20)

    # --- looking ---------------------------------------------------------------------------------------------------

    @property
    def running(self) -> list[str]:
        """The nodes that are up and not paused."""
        return [node for node in self._site_of if self.world.is_up(node) and not self.world.is_paused(node)]

    def are_together(self, nodes: Sequence[str]) -> bool:
        wanted = tuple(sorted(self.world.daemon(node) for node in nodes))
        networks = [self.stack(node).membership.node.network for node in nodes]
        return all(each is not None and each.installed and each.view.members == wanted for each in networks)

    def view_names(self, node: str) -> str:
        """The members of the last daemon view of this daemon, by name."""
        return "".join(member.name for member in self.installed[node][-1].view.members)

    def versions_run(self, *nodes: str) -> set[int | None]:
        """The versions at which the daemon views of these run, as they tell it."""
        return {status(self.stack(node), self.world.clock(node)).version for node in nodes}

    def why_excluded(self, node: str, other: str) -> ExclusionAnswer:
        return why_excluded(self.stack(node), other, self.world.clock(node))

    def refusals(self, node: str) -> list[str]:
        standing = self.stack(node).membership.standing(self.world.clock(node))
        return [f"{each.daemon}: {each.evidence}" for each in standing.refusals]

    def tell_why(self, nodes: Sequence[str]) -> str:
        lines = []
        for node in nodes:
            stack, at = self.stack(node), self.world.clock(node)
            excluded = [why_excluded(stack, other, at).text for other in nodes if other != node]
            lines.append(f"{status(stack, at).text}: {excluded}")
        return "\n".join(lines)

    def unheard(self) -> list[bytes]:
        """What a client sent and its own daemon, which has not ended since, never gave back to it."""
        missing = []
        for node in self.running:
            sent = self.sent.get(self.world.daemon(node), [])
            heard = set(self.messages(node, node))
            missing += [body[:40] for body in sent if body not in heard]
        return missing

    def violations(self) -> dict[str, str]:
        verdicts = check(self.rows).verdicts
        return {label: each.violation.explanation for label, each in verdicts.items() if each.violation}
