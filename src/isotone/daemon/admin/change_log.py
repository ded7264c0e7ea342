"""The reason of every state change of a daemon, as lines of its log.

`look` is called after every wake-up. It compares a few values and is done, unless something changed: the state of the
membership or of the groups, the daemon view, or a slow reader. Peers and what sessions counted are looked at then, and
once a second, so that nobody can fill the log. Refusals are logged once for each peer and reason.
"""

from __future__ import annotations

import logging
from collections import OrderedDict

from isotone.evs.explain import why_excluded
from isotone.evs.membership.states import State
from isotone.evs.sessions.messages import EndCode
from isotone.evs.stack import Stack

PEERS_EVERY_US = 1_000_000
REFUSALS_MAX = 1_024
ENDS_MAX = 20
"""Sessions of which one look tells each by name; all are counted."""
QUIET_ENDS = (EndCode.ASKED, EndCode.SHUTDOWN)

log = logging.getLogger("isotone.state")


class Refusals:
    """Which refusals were logged already: once for each peer and reason, the latest so many are remembered."""

    def __init__(self) -> None:
        self.suppressed = 0
        self._seen: OrderedDict[tuple[str, str], None] = OrderedDict()

    def tell(self, peer: str, reason: str, what: str = "refused") -> None:
        """Log it, unless it was."""
        key = (peer, reason)
        if key in self._seen:
            self.suppressed += 1
            self._seen.move_to_end(key)
            return
        self._seen[key] = None
        if len(self._seen) > REFUSALS_MAX:
            self._seen.popitem(last=False)
        log.warning(what, extra={"fields": {"peer": peer, "reason": reason}})


class ChangeLog:
    """What changed at one daemon since the last look."""

    def __init__(self, stack: Stack) -> None:
        self.refusals = Refusals()
        self._stack = stack
        self._key: object = None
        self._entries = 0  # states of the membership, that were told
        self._view = ""
        self._groups = ""
        self._peers_at: int | None = None
        self._peers: dict[str, tuple[str, ...]] = {}
        self._missing: set[str] = set()
        self._members: set[str] = set()  # of the last daemon view
        self._conflict = ""
        self._sessions: dict[str, int] = {}
        self._ended = 0  # sessions
        self._blocking: frozenset[str] = frozenset()

    def look(self, at: int) -> None:
        """Log what changed; ``at`` is the daemon's time."""
        node, groups = self._stack.membership.node, self._stack.groups
        key = (node.since, node.state, node.reason, node.past.id, groups.state, groups.reason, self._slow_key())
        if key == self._key and self._peers_at is not None and at - self._peers_at < PEERS_EVERY_US:
            return
        if key != self._key:
            self._key = key
            self._look_at_membership()
            self._look_at_view(at)
            self._look_at_groups()
        self._peers_at = at
        self._look_at_sessions()
        self._look_at_peers(at)

    def _slow_key(self) -> tuple[int, ...]:
        sessions = self._stack.sessions
        if sessions is None:
            return ()
        elsewhere = len(self._stack.groups.holds.readers)
        return (sessions.counters.warnings, sessions.counters.blocked, len(sessions.blocking), elsewhere)

    # --- membership and groups -------------------------------------------------------------------------------------

    def _look_at_membership(self) -> None:
        node = self._stack.membership.node
        entered = node.entries.total() - self._entries
        self._entries += entered
        if entered > len(node.entered):
            missed = entered - len(node.entered)
            log.warning("membership passed through more states than are remembered", extra={"fields": {"more": missed}})
        for each in list(node.entered)[-entered:] if entered else ():
            fields = {"state": each.state.name, "because": each.reason.value, "means": each.state.value}
            if each.culprit and each.state is not State.OP:
                fields["culprit"] = each.culprit
            log.info("membership enters", extra={"fields": fields})

    def _look_at_view(self, at: int) -> None:
        node = self._stack.membership.node
        network = node.network
        working = network is not None and network.installed
        view = str(node.past.id) if working else ""
        if view == self._view:
            return
        was, self._view = self._view, view
        members = [member.name for member in node.past.members]
        if not view:
            fields = {"view": was, "because": node.reason.value, "culprit": node.culprit}
            log.warning("the daemon view is over", extra={"fields": fields})
            return
        log.info(
            "a daemon view works",
            extra={"fields": {"view": view, "members": ",".join(members), "daemons": len(members)}},
        )
        self._look_at_missing(members, at)

    def _look_at_missing(self, members: list[str], at: int) -> None:
        """Who is not in the new daemon view; a loss is a warning, one who never was there is not."""
        missing = {name for name in self._stack.membership.node.peers.by_name if name not in members}
        for name in sorted(missing - self._missing):
            answer = why_excluded(self._stack, name, at)
            fields = {"daemon": name, "ruling": answer.ruling.value, "reason": answer.text}
            level = logging.WARNING if name in self._members else logging.INFO
            log.log(level, "a daemon is not in the daemon view", extra={"fields": fields})
        for name in sorted(set(members) - self._members - {self._stack.me.name}):
            log.info("a daemon came into the daemon view", extra={"fields": {"daemon": name}})
        self._missing, self._members = missing, set(members)

    def _look_at_groups(self) -> None:
        groups = self._stack.groups
        if groups.state.name != self._groups:
            self._groups = groups.state.name
            fields = {"state": groups.state.name, "because": groups.reason.value}
            log.info("groups enter", extra={"fields": fields})

    # --- clients ---------------------------------------------------------------------------------------------------

    def _look_at_sessions(self) -> None:
        sessions = self._stack.sessions
        if sessions is None:
            return
        counts = {f"ended {code.value}": count for code, count in sessions.counters.ended.items()}
        counts.update({f"turned away {code.value}": count for code, count in sessions.counters.turned_away.items()})
        counts.update({"warned": sessions.counters.warnings, "malformed": sessions.counters.malformed})
        for name, count in counts.items():
            more = count - self._sessions.get(name, 0)
            if more:
                quiet = name in {f"ended {code.value}" for code in QUIET_ENDS}
                level = logging.DEBUG if quiet else logging.WARNING
                log.log(level, "sessions", extra={"fields": {"what": name, "more": more, "total": count}})
        ended = sum(sessions.counters.ended.values())
        for gone, farewell in reversed(sessions.departed(min(ended - self._ended, ENDS_MAX))):
            if farewell.code not in QUIET_ENDS:
                fields = {"client": str(gone), "code": farewell.code.value, "reason": farewell.reason}
                log.warning("a session ended", extra={"fields": fields})
        self._sessions, self._ended = counts, ended
        blocking = frozenset(map(str, (*sessions.blocking, *self._stack.groups.holds.readers)))
        for client in sorted(blocking - self._blocking):
            log.warning("senders wait for a slow reader", extra={"fields": {"client": client, "policy": "block"}})
        for client in sorted(self._blocking - blocking):
            log.info("senders no longer wait for a reader", extra={"fields": {"client": client}})
        self._blocking = blocking

    # --- peers -----------------------------------------------------------------------------------------------------

    def _look_at_peers(self, at: int) -> None:
        peers = self._stack.membership.node.peers
        for name, peer in peers.by_name.items():
            now = (peer.suspected, peer.refused, peer.refuses, "gone" if peer.gone else "")
            before = self._peers.get(name)
            if now != before:
                self._peers[name] = now
                self._tell_peer(name, now, before or ("", "", "", ""))
        for name in [name for name in self._peers if name not in peers.by_name]:
            del self._peers[name]
            log.info("a daemon is not known any more", extra={"fields": {"daemon": name}})
        for where, claim in peers.recent_claims(at):
            self.refusals.tell(f"{claim.name} at {where}", claim.reason, "a daemon is refused")
        conflict = peers.conflict(at)
        if conflict != self._conflict:
            self._conflict = conflict
            if conflict:
                log.error("somebody claims our name or identity", extra={"fields": {"reason": conflict}})
            else:
                log.info("nobody claims our name or identity any more")

    def _tell_peer(self, name: str, now: tuple[str, ...], before: tuple[str, ...]) -> None:
        suspected, refused, refuses, gone = now
        if suspected != before[0]:
            if suspected:
                log.warning("a daemon is suspected", extra={"fields": {"daemon": name, "evidence": suspected}})
            else:
                log.info("a daemon is not suspected any more", extra={"fields": {"daemon": name}})
        if refused and refused != before[1]:
            self.refusals.tell(name, refused, "a daemon is refused")
        if refuses and refuses != before[2]:
            self.refusals.tell(name, refuses, "a daemon refuses us")
        if gone and not before[3]:
            log.info("a daemon said good-bye", extra={"fields": {"daemon": name}})
