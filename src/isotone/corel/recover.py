"""After the permanent loss of a quorum: what would be lost if the rest went on alone, and the record that makes it so.

Pure functions over ledgers that were read from disks. The record goes to the log of every survivor, byte for byte the
same: it raises the fence, and makes the survivors the only servers. Whoever does not know of it never counts again.

Implements: docs/protocols/corel-growth.md, recovery by force. Deviations: D-fence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from isotone.core.errors import LocalProtocolError
from isotone.corel import records as r
from isotone.corel.configuration import Configuration, carried, decode_rule, encode_rule
from isotone.corel.ledger import Ledger
from isotone.corel.message import Message
from isotone.corel.quorum import History, Majority, Primary, Rule, check_quorum, doubled, formed_twice, merged

STRANGE = "has not the log that the others know under this name"
GREEN, YELLOW, RED = "green", "yellow", "red"


class Loss(msgspec.Struct, frozen=True):
    """A message that no survivor has."""

    name: str
    colour: str  # the highest that any readable disk gives it
    place: int  # there
    records: int


class Losses(msgspec.Struct, frozen=True):
    """What is lost, as far as disks can be read; and which primaries may have ordered more than those disks hold."""

    messages: tuple[Loss, ...]
    doubtful: tuple[Primary, ...]
    unread: tuple[str, ...]  # servers without a readable disk of their log
    strange: tuple[str, ...] = ()  # servers whose disk can be read, and has another log
    set_back: tuple[str, ...] = ()  # servers whose disk can be read, and has less than it promised

    def of(self, colour: str) -> tuple[Loss, ...]:
        """Those of one colour, by place."""
        return tuple(each for each in self.messages if each.colour == colour)

    def text(self) -> str:
        """For an operator to read before he agrees."""
        told = {GREEN: "", YELLOW: " (may have been acknowledged to clients)", RED: ""}  # green is written down late
        lines = [f"{len(self.of(colour))} {colour} messages{more} would be lost" for colour, more in told.items()]
        lines += [
            f"  {each.colour} {each.name} at place {each.place}, {each.records} records" for each in self.messages
        ]
        if self.unread:
            lines.append(f"the disks of {', '.join(self.unread)} cannot be read: what only they have is lost too")
        lines += [f"the disk of {server} {STRANGE}: it says nothing of what {server} had" for server in self.strange]
        lines += [f"the disk of {each} has less than it promised: what only it had is lost" for each in self.set_back]
        for primary in self.doubtful:
            lines.append(
                f"primary {primary.number} ({', '.join(primary.servers)}) may have ordered more than is known here"
            )
        return "\n".join(lines)


def assess(ledgers: Mapping[str, Ledger], survivors: tuple[str, ...]) -> Losses:
    """``ledgers``: of every disk that can be read, by server; the survivors among them."""
    shown, ledgers = ledgers, _checked(ledgers, survivors)
    kept = [ledgers[server] for server in survivors]
    found: dict[str, Loss] = {}
    ranks = {GREEN: 0, YELLOW: 1, RED: 2}
    for server in sorted(set(ledgers) - set(survivors)):
        for loss, message in _held(ledgers[server]):
            known = found.get(loss.name)
            is_higher = known is None or (ranks[loss.colour], loss.place) < (ranks[known.colour], known.place)
            if is_higher and not any(each.queue.has(message.name) for each in kept):
                found[loss.name] = loss
    ordered = sorted(found.values(), key=lambda each: (ranks[each.colour], each.place, each.name))
    known_servers = {server for ledger in kept for server in ledger.queue.configuration.servers}
    unread = tuple(sorted(known_servers - set(ledgers)))
    set_back = tuple(sorted(server for server, ledger in ledgers.items() if ledger.set_back))
    history = merged([ledger.history for ledger in kept])
    doubtful = tuple(
        each for each in (history.last, *history.pending) if each.number and set(each.servers) & {*unread, *set_back}
    )
    return Losses(tuple(ordered), doubtful, unread, tuple(sorted(shown.keys() - ledgers.keys())), set_back)


def _held(ledger: Ledger) -> list[tuple[Loss, Message]]:
    queue = ledger.queue
    found = []
    for place, message in enumerate(queue.held, queue.forgotten + 1):
        colour = GREEN if place <= queue.green else YELLOW if place <= queue.yellow else RED
        found.append((Loss(str(message), colour, place, len(message.records)), message))
    return found


def forced_rule(ledgers: Mapping[str, Ledger], survivors: tuple[str, ...]) -> Rule:
    """The last rule that is known, carried over to the survivors; a majority of them if it cannot hold among them."""
    return _carried(_last(of_this_log(ledgers, survivors)), tuple(sorted(survivors)))


def of_this_log(ledgers: Mapping[str, Ledger], survivors: Sequence[str]) -> dict[str, Ledger]:
    """Those that have the log that their name stands for, as far as survivors know it; and the survivors."""
    strange = set(_strange(ledgers, [ledgers[server] for server in survivors])) - set(survivors)
    return {server: ledger for server, ledger in ledgers.items() if server not in strange}


def _strange(ledgers: Mapping[str, Ledger], knowing: Iterable[Ledger]) -> list[str]:
    """Those whose log is not the one that their name stands for; what is not green counts as `strangers_of` has it."""
    green: dict[str, set[bytes]] = {}
    coming: dict[str, set[bytes]] = {}
    for ledger in knowing:
        for name, identity in ledger.queue.configuration.identities:
            green.setdefault(name, set()).add(identity)
        for name, identity in (pair for each in ledger.queue.coming() for pair in each.identities):
            coming.setdefault(name, set()).add(identity)
    known = coming | green
    return sorted(name for name, each in ledgers.items() if known.get(name, {each.identity}) != {each.identity})


def _known(ledgers: Iterable[Ledger]) -> list[Configuration]:
    return [each for ledger in ledgers for each in (ledger.queue.configuration, *ledger.queue.coming())]


def _last(ledgers: Mapping[str, Ledger]) -> Configuration:
    return max(_known(ledgers.values()), key=lambda each: each.number)


def _gone(ledgers: Iterable[Ledger], servers: tuple[str, ...]) -> tuple[str, ...]:
    """Whoever was a server or is one, as far as it is known, and goes on no more: these names never come back."""
    named = {server for each in _known(ledgers) for server in (*each.servers, *each.retired)}
    return tuple(sorted(named - set(servers)))


def forced_record(ledgers: Mapping[str, Ledger], survivors: tuple[str, ...], rule: Rule | None = None) -> bytes:
    """One record, for the log of every survivor, or of those who lack it: see `lacking`."""
    if len(set(survivors)) < len(survivors):
        raise LocalProtocolError(f"a survivor is named twice: {', '.join(survivors)}")
    ledgers = _checked(ledgers, survivors)
    if lacking(ledgers, survivors):
        first = max((ledgers[server] for server in survivors), key=lambda ledger: ledger.fence)
        assert first.forced is not None
        return r.encode_record(r.Forced(first.fence, first.forced, first.history.last.number))
    servers = tuple(sorted(survivors))
    following = rule or forced_rule(ledgers, survivors)
    check_quorum(following, servers)
    gone, identities = _gone(ledgers.values(), servers), _identities(ledgers, servers)
    configuration = Configuration(_last(ledgers).number + 1, servers, encode_rule(following), gone, identities)
    fence = max(ledger.fence for ledger in ledgers.values()) + 1
    number = max(ledgers[server].last_number for server in survivors)
    return r.encode_record(r.Forced(fence, configuration, number))


def begin_anew(ledger: Ledger, servers: Iterable[str], rule: Rule, fence: int) -> None:
    """The same log as that of these servers alone, behind this fence: who was not restored with them never counts."""
    names = tuple(sorted(servers))
    _check_retired([ledger], names)
    number, retired = ledger.queue.configuration.number + 1, _gone([ledger], names)
    ledger.apply(r.Forced(fence, Configuration(number, names, encode_rule(rule), retired), ledger.last_number))
    ledger.history = History(ledger.history.last)  # these servers: all are equal, and met before they begin


def _identities(ledgers: Mapping[str, Ledger], survivors: tuple[str, ...]) -> tuple[tuple[str, bytes], ...]:
    """Whose log is which, also of those who are gone."""
    in_order = sorted(_known(ledgers.values()), key=lambda each: each.number)
    known = dict(pair for each in in_order for pair in each.identities)
    known |= {server: ledgers[server].identity for server in survivors}
    return tuple(sorted(known.items()))


def lacking(ledgers: Mapping[str, Ledger], survivors: tuple[str, ...]) -> tuple[str, ...]:
    """Survivors whose log does not have the record that others have: it was broken off while it was written."""
    highest = max(ledgers[server].fence for server in survivors)
    return tuple(server for server in survivors if ledgers[server].fence < highest)


def _carried(last: Configuration, servers: tuple[str, ...]) -> Rule:
    try:
        rule = carried(decode_rule(last.rule), servers, {})
        check_quorum(rule, servers)
    except LocalProtocolError:
        return Majority(servers)  # the rule asked for somebody who is gone, or for more than are left
    return rule


def _checked(ledgers: Mapping[str, Ledger], survivors: tuple[str, ...]) -> dict[str, Ledger]:
    """Those of this log, if these survivors can go on."""
    if not survivors or not set(survivors) <= ledgers.keys():
        raise LocalProtocolError("every survivor has a disk that can be read, and there is at least one")
    ledgers = of_this_log(ledgers, survivors)
    strange = ", ".join(sorted(set(_strange(ledgers, ledgers.values())) & set(survivors)))
    if strange:
        raise LocalProtocolError(f"{strange} {STRANGE}, and cannot go on: name the other survivors")
    unnamed = ", ".join(sorted(server for server in survivors if not ledgers[server].identity))
    if unnamed:
        raise LocalProtocolError(f"{unnamed} has no identity yet: start it once, stop it, and ask again")
    learning = sorted(server for server in survivors if not ledgers[server].ready)
    if learning:
        names = ", ".join(learning)
        raise LocalProtocolError(
            f"{names} had not caught up with the others, and cannot go on: name the other survivors"
        )
    _check_forked(ledgers, survivors)
    _check_set_back(ledgers, survivors)
    behind = lacking(ledgers, survivors)
    begun = [ledgers[server] for server in survivors if server not in behind]
    forced = {ledger.queue.configuration.servers for ledger in begun if ledger.history.forced}
    if behind and forced != {tuple(sorted(survivors))}:
        raise LocalProtocolError("not all survivors know of the last primary that was forced")
    _check_retired(ledgers.values(), survivors)
    return ledgers


def _check_forked(ledgers: Mapping[str, Ledger], survivors: tuple[str, ...]) -> None:
    """Two orders never become one; and the force would hide that there are two."""
    for primaries in doubled(ledgers[server].history for server in survivors).values():
        raise LocalProtocolError(formed_twice(primaries))


def _check_set_back(ledgers: Mapping[str, Ledger], survivors: tuple[str, ...]) -> None:
    """Beside another it would be found again to have less than it promised, and all survivors must meet."""
    set_back = [server for server in sorted(survivors) if ledgers[server].set_back]
    if set_back and len(survivors) > 1:
        raise LocalProtocolError(
            f"{', '.join(set_back)} has less than it promised, and does not go on with others: "
            f"name the other survivors, and add it under a new name; or {' or '.join(set_back)} alone"
        )


def _check_retired(ledgers: Iterable[Ledger], servers: tuple[str, ...]) -> None:
    """Its lives and promises are not known any more: a name that left never comes back."""
    removed = sorted(set(servers) & {name for ledger in ledgers for name in ledger.queue.configuration.retired})
    if removed:
        raise LocalProtocolError(f"{', '.join(removed)} was removed, and a name that left never comes back")
