"""Why something may be stuck, read off the status and the answers of all daemons: a sentence each, the likeliest first.

A daemon explains what it waits for; what holds the others up stands in their own status. So commands that explain ask
every daemon they know and name what they find: injected faults, daemons that do not answer or are suspected, a cluster
in parts, a full window, clients that do not read. A `Scope` keeps to what can hold up what was asked about.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from isotone.cli.status_tables import size, span

Statuses = Sequence[tuple[str, dict[str, Any] | None, str]]
"""Address or name, status or none, and why none, of each daemon that was asked."""
NO_VIEW = "daemon view"
"""What a message waits for that needs any daemon view at all: everybody is concerned."""


class Cause(msgspec.Struct, frozen=True):
    """What is wrong, at which daemon, and what to do."""

    kind: str
    daemon: str
    text: str


@dataclass(frozen=True)
class Scope:
    """Which daemons and clients a question is about; without one it is about all of them."""

    among: frozenset[str] | None = None
    """A fault counts between two of these daemons."""
    touching: str = ""
    """Or where it touches this one."""
    pairs: frozenset[frozenset[str]] = frozenset()
    """Or between two daemons that were told not to reach each other."""
    readers: frozenset[str] | None = None
    """Ids of the clients that hold it up, by not reading."""

    def has_link(self, one: str, other: str) -> bool:
        """Whether what is wrong between these two daemons counts."""
        if self.among is None or self.touching in (one, other) or frozenset((one, other)) in self.pairs:
            return True
        return one in self.among and other in self.among

    def has_daemon(self, name: str) -> bool:
        """Whether this daemon counts."""
        return self.among is None or name in self.among or name == self.touching

    def has_reader(self, client: Mapping[str, Any]) -> bool:
        """Whether it counts that this client does not read."""
        return self.readers is None or client["id"] in self.readers


EVERYTHING = Scope()
VIEW_SCOPE = Scope(readers=frozenset())
"""Of a question about daemon views: no client holds one up."""


def exclusion_scope(daemon: str, answers: Mapping[str, dict[str, Any]]) -> Scope:
    """Of the question why a daemon is out: what touches it, and who was told not to reach whom."""
    pairs = frozenset(frozenset(pair) for answer in answers.values() for pair in answer.get("unreached", ()))
    return Scope(among=frozenset(), touching=daemon, pairs=pairs, readers=frozenset())


def message_scope(message: str, answers: Mapping[str, dict[str, Any]], statuses: Sequence[dict[str, Any]]) -> Scope:
    """Of a question about a message: its sender, where its receivers are, and whom the daemons wait for.

    As long as no daemon knows its groups, what touches the daemon of its sender counts.
    """
    sender = sender_of(message)
    blockers = [blocker for answer in answers.values() for blocker in answer.get("blockers", ())]
    readers = frozenset(reader for blocker in blockers for reader in blocker.get("readers", ()))
    if any(blocker["wait"] == NO_VIEW for blocker in blockers):
        return Scope(readers=readers)
    among = {sender, *(name for blocker in blockers for name in blocker.get("daemons", ()))}
    groups = {group for answer in answers.values() for group in answer.get("groups", ())}
    for status in statuses:
        if groups and status["totals"]["groups"] > len(status["groups"]):
            return Scope(readers=readers)  # more than are listed: where its receivers are cannot be told
        members = [group["members"] for group in status["groups"] if group["name"] in groups]
        among |= {_daemon_of(client) for each in members for client in each}
    among |= {_daemon_of(group) for group in groups if group.startswith("#")}
    among |= _gateways(statuses, among)
    return Scope(among=frozenset(among), touching="" if groups else sender, readers=readers)


def sender_of(message: str) -> str:
    """The daemon at which the sender of a message is, by the message's name: ``120!d1#3``, ``#alice#d1#3#17:5``."""
    return _daemon_of(message) if message.startswith("#") else message.partition("!")[2].partition("#")[0]


def _daemon_of(client: str) -> str:
    return [*client.split("#"), "", ""][2]


def _gateways(statuses: Sequence[dict[str, Any]], names: Iterable[str]) -> set[str]:
    """The daemons that carry messages between sites, where these are of several; whose way leads where is not told."""
    sites = {daemon: site for status in statuses for site in status["stack"]["sites"] for daemon in site["daemons"]}
    site_of = {daemon: site["name"] for daemon, site in sites.items()}
    if len({site_of[name] for name in names if name in site_of}) < 2:
        return set()
    return {site["gateway"] for site in sites.values()}


def causes_of(
    told: Statuses, scope: Scope = EVERYTHING, answers: Mapping[str, dict[str, Any]] | None = None
) -> list[Cause]:
    """What the status of these daemons, and their ``answers``, tell of what keeps messages or views of it waiting."""
    statuses = [status for _, status, _ in told if status is not None]
    found = [_unanswered(address, why) for address, status, why in told if status is None]
    found += _faults(statuses, scope)
    cut = {(status["name"], rule["daemon"]) for status in statuses for rule in status["faults"] or () if rule["cut"]}
    found += [_suspicion(status, peer) for status, peer in _suspicions(statuses, cut, scope)]
    found += _parts(statuses, scope)
    found += _windows(answers or {})
    slow = [(status, client) for status in statuses for client in status["clients"] if client["blocks"]]
    found += [_reader(status, client) for status, client in slow if scope.has_reader(client)]
    named = {client["id"] for _, client in slow}
    return found + _other_readers(answers or {}, named)


def _unanswered(address: str, why: str) -> Cause:
    return Cause("no answer", address, why)


def _faults(statuses: Sequence[dict[str, Any]], scope: Scope) -> list[Cause]:
    """Injected faults, one for each pair of daemons that are cut off from each other both ways."""
    rules = [(status, rule) for status in statuses for rule in status["faults"] or ()]
    whole = {(status["name"], rule["daemon"]) for status, rule in rules if _is_whole(rule)}
    return [
        _fault(status, rule)
        for status, rule in rules
        if scope.has_link(status["name"], rule["daemon"])
        and not (_is_whole(rule) and status["name"] > rule["daemon"] and (rule["daemon"], status["name"]) in whole)
    ]


def _is_whole(rule: dict[str, Any]) -> bool:
    return bool(rule["cut"]) and not rule.get("receive_only") and not rule.get("send_only")


def _fault(status: dict[str, Any], rule: dict[str, Any]) -> Cause:
    here, there = status["name"], rule["daemon"]
    if _is_whole(rule):
        what = f"between it and {there} all packets are lost"
    elif rule["cut"]:
        source, target = (here, there) if rule.get("receive_only") else (there, here)
        what = f"all packets from {source} to {target} are lost"
    else:
        parts = [f"{rule['drop']:.0%} are lost"] if rule["drop"] else []
        parts += [f"all are {span(rule['delay_us'])} late"] if rule["delay_us"] else []
        what = f"of its packets to {there} {' and '.join(parts) or 'none is lost'}"
    return Cause("injected fault", here, f"injected fault at {here}: {what}; `isotone faults heal` ends it")


def _suspicions(
    statuses: Sequence[dict[str, Any]], cut: set[tuple[str, str]], scope: Scope
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Who suspects whom, where no injected cut explains it."""
    return [
        (status, peer)
        for status in statuses
        for peer in status["stack"]["peers"]
        if peer["suspected"]
        and not {(status["name"], peer["name"]), (peer["name"], status["name"])} & cut
        and scope.has_link(status["name"], peer["name"])
    ]


def _suspicion(status: dict[str, Any], peer: dict[str, Any]) -> Cause:
    heard = f"heard {span(peer['silent_us'])} ago" if peer["silent_us"] else "never heard"
    return Cause(
        "suspected", status["name"], f"{status['name']} suspects {peer['name']}: {peer['suspected']} ({heard})"
    )


def _parts(statuses: Sequence[dict[str, Any]], scope: Scope) -> list[Cause]:
    """A cluster in parts, where the question is about daemons of several of them."""
    views: dict[str, tuple[str, ...]] = {}
    concerned = set()
    for status in statuses:
        view = status["stack"]["view"]
        views[view["daemon_view"]] = tuple(name.partition("#")[0] for name in view["members"])
        if scope.touching or scope.has_daemon(status["name"]):
            concerned.add(view["daemon_view"])
    if len(concerned) < 2:
        return []
    parts = " | ".join(" ".join(members) for members in sorted(views.values()))
    return [Cause("partition", "", f"the daemons are in {len(views)} parts: {parts}")]


def _windows(answers: Mapping[str, dict[str, Any]]) -> list[Cause]:
    """A daemon that may stamp nothing before others have what it stamped, and who has not."""
    found = []
    for daemon, answer in answers.items():
        blockers = answer.get("blockers", ())
        for blocker, behind in zip(blockers, [*blockers[1:], None]):
            if blocker["wait"] == "window":
                held_by = "" if behind is None else f": {behind['text']}"
                found.append(
                    Cause("full window", daemon, f"the window of {daemon} is full, {blocker['text']}{held_by}")
                )
    return found


def _reader(status: dict[str, Any], client: dict[str, Any]) -> Cause:
    groups = ", ".join(client["blocked_groups"]) or "no group"
    text = (
        f"client {client['name']} at {status['name']} does not read: {size(client['held_bytes'])} wait for it, "
        f"{size(client['held_bytes_max'])} are allowed; senders to its groups ({groups}) have waited "
        f"for {span(client['blocks_us'] or 1)}"
    )
    return Cause("slow reader", status["name"], text)


def _other_readers(answers: Mapping[str, dict[str, Any]], named: set[str]) -> list[Cause]:
    """Readers that hold a message up, whose own daemon did not tell of them."""
    readers = {
        reader: daemon
        for daemon, answer in answers.items()
        for blocker in answer.get("blockers", ())
        for reader in blocker.get("readers", ())
        if reader not in named
    }
    return [
        Cause(
            "slow reader",
            _daemon_of(reader),
            f"client {reader} does not read, says {daemon}, where senders wait for it",
        )
        for reader, daemon in readers.items()
    ]
