"""What servers promise each other besides the order: phases, configurations, states; formulas as in `invariants`.

Implements: [COReL 3.1], [COReL 3.3], [COReL 5.6].
"""

from __future__ import annotations

import json
from itertools import combinations, pairwise, permutations
from typing import Any

from isotone.trace import corel as trace
from isotone.trace.events import Entry
from tests.spec.naive_corel.history import History, Log, Moment, named_by, number_of, sender_of
from tests.spec.naive_corel.invariants import Cases

Step = trace.PrimaryAttempted | trace.PrimaryCommitted | trace.PrimaryEstablished


def epochs(history: History) -> Cases:
    """Of one log, neither the last committed primary nor the fence is ever told lower than before."""
    for log in history.logs:
        committed = [
            moment.committed for moment in log.rows(trace.PrimaryCommitted, trace.QueueArranged, trace.ReplicaStarted)
        ]
        fences = [
            moment.entry.fence
            for moment in log.moments
            if isinstance(moment.entry, (trace.ReplicaStarted, trace.Fenced))
        ]
        for told in (committed, fences):
            for before, after in pairwise(told):
                if before:
                    yield after >= before


def attempts(history: History) -> Cases:
    """Of one log, each attempt is above all that it attempted or found before, and above the last primary that it knows
    of; a start finds no less than those.
    """
    for log in history.logs:
        numbers: list[int] = []
        for moment in log.moments:
            match moment.entry:
                case trace.PrimaryAttempted(primary=number):
                    if number <= moment.committed:
                        yield False
                    if numbers:
                        yield all(number > before for before in numbers)
                    numbers.append(number)
                case trace.ReplicaStarted(attempted=number):
                    if any(numbers):
                        yield all(number >= before for before in numbers)
                    numbers.append(number)


def quorums(history: History) -> Cases:
    """Of all that were committed to, each shares a server with the next lower one; and each is one by its rule."""
    sets: dict[int, tuple[str, ...]] = {}
    for _, _, it in sorted(history.told(trace.PrimaryCommitted), key=lambda each: each[1].where):
        sets.setdefault(it.primary, it.servers)
    for lower, higher in pairwise(sorted(sets.items())):
        yield bool(set(lower[1]) & set(higher[1]))
    for _, _, it in sorted(history.ever_told(trace.PrimaryCommitted), key=lambda each: each[1].where):
        sets.setdefault(it.primary, it.servers)
    for log, moment, attempt in history.ever_told(trace.PrimaryAttempted):
        if moment.rule and not moment.fence:
            last = sets.get(moment.committed, ()) if moment.committed else _founders(log, moment)
            members, before = (set(each) & set(moment.servers) for each in (attempt.servers, last))
            yield _holds(json.loads(moment.rule), members, before)


def _founders(log: Log, moment: Moment) -> tuple[str, ...]:
    """The servers that one knows who began with nothing and got no state from another."""
    is_new = isinstance(log.moments[0].entry, trace.ReplicaStarted) and not log.moments[0].green
    has_state = any(isinstance(each.entry, trace.StateInstalled) for each in _before(log, moment))
    return log.moments[0].servers if is_new and not has_state else ()


def _holds(rule: dict[str, Any], members: set[str], last: set[str]) -> bool:
    votes = rule.get("votes") or dict.fromkeys(rule.get("servers", ()), 1)
    if rule["type"] == "Monarch":
        return rule["server"] in members
    if rule["type"] == "DynamicVoting":
        is_enough = len(members) >= rule.get("minimum", 1) and bool(members)
        part = {"type": "TieBreaker", "servers": sorted(last), "breaker": min(last, default="")}
        return is_enough and (not last or _holds(part, members, set()))
    if rule["type"] in ("AllOf", "AnyOf"):
        each = [_holds(one, members, last) for one in rule["rules"]]
        return all(each) if rule["type"] == "AllOf" else any(each)
    present, absent = (
        sum(count for name, count in votes.items() if (name in members) is here) for here in (True, False)
    )
    return present > absent or (present == absent and rule.get("breaker") in members)


def phases(history: History) -> Cases:
    """Before a commit all its servers attempted it, before an establishment all committed, before an adoption one did.
    What is green in the context of a primary is so in one that somebody committed to. And each step is taken once.

    A commit that was on its way to the disk in a crash may be there all the same: then the next start tells it.
    """
    attempts = {(log.server, it.primary, it.servers) for log, _, it in history.told(trace.PrimaryAttempted)}
    commits = {(log.server, it.primary, it.servers) for log, _, it in history.told(trace.PrimaryCommitted)}
    for log, moment, commit in history.told(trace.PrimaryCommitted):
        yield all((server, commit.primary, commit.servers) in attempts for server in commit.servers)
        yield _has_told(log, moment, trace.PrimaryAttempted, commit)
    for log, moment, establishment in history.told(trace.PrimaryEstablished):
        number, servers = establishment.primary, establishment.servers
        yield all((server, number, servers) in commits for server in servers)
        yield _has_told(log, moment, trace.PrimaryCommitted, establishment)
    for log in history.logs:
        yield from (False for is_right in _steps([each.entry for each in log.moments if each.is_own]) if not is_right)
    committed = {it.primary for _, _, it in history.told_by_anybody(trace.PrimaryCommitted)}
    committed |= {after.committed for _, after in _risen(history.everybody) if _is_start(after)}
    for _, moment in _risen(history.logs):
        if isinstance(moment.entry, trace.QueueArranged) and moment.is_own:
            yield moment.committed in committed
    if history.is_last:
        yield from (False for is_right in _found(history) if not is_right)
    for log, moment, told in history.told(trace.Greened):
        if not told.proposal:
            yield told.primary in committed
            knows = (trace.PrimaryCommitted, trace.QueueArranged, trace.ReplicaStarted)
            if moment.vouches and any(isinstance(each.entry, knows) for each in _before(log, moment)):
                yield told.primary == moment.committed
            here = _primary_at(log, moment)
            yield here is None or here == told.primary
            if _is_begun(log, moment, told.primary):
                yield moment.green == _before(log, moment)[-1].green


def _found(history: History) -> Cases:
    """What a server finds behind its first start was attempted by anybody, or known when a record began."""
    attempted = {it.primary for _, _, it in history.told_by_anybody(trace.PrimaryAttempted)}
    attempted |= {it.primary for _, _, it in history.told_by_anybody(trace.PrimaryCommitted)}
    attempted |= {log.moments[0].committed for log in history.everybody if _is_start(log.moments[0])}
    for log in history.everybody:
        for before, after in pairwise(log.moments):
            if _is_start(after) and after.committed > before.committed:
                yield after.committed in attempted


def _has_told(log: Log, moment: Moment, kind: type[Step], step: Step) -> bool:
    before = [it.entry for it in _before(log, moment) if it.is_own]
    return any(_primary_of(it) == _primary_of(step) for it in before if isinstance(it, kind))


def _steps(entries: list[Entry]) -> Cases:
    """A commit is to what was attempted last, and is no second one; nothing but the own sends, messages and marks
    stands between it and its establishment.
    """
    for place, entry in enumerate(entries):
        before = entries[:place][::-1]
        if isinstance(entry, trace.PrimaryCommitted):
            attempt = next((each for each in before if isinstance(each, trace.PrimaryAttempted)), None)
            last = next((each for each in before if isinstance(each, trace.PrimaryCommitted)), None)
            yield last is None or _primary_of(last) != _primary_of(entry)
            if attempt is not None:
                yield not any(isinstance(each, trace.ReplicaStarted) for each in before[: before.index(attempt)])
            yield attempt is None or _primary_of(attempt) == _primary_of(entry)
        if isinstance(entry, trace.PrimaryEstablished):
            at = next((each for each, it in enumerate(before) if isinstance(it, trace.PrimaryCommitted)), None)
            ends = (trace.QueueArranged, trace.ReplicaStarted, trace.PrimaryAttempted, trace.PrimaryEstablished)
            if at is not None and _primary_of(before[at]) == _primary_of(entry):  # type: ignore[arg-type]
                yield not any(isinstance(each, ends) for each in before[:at])


def _primary_at(log: Log, moment: Moment) -> int | None:
    """The number of the primary component that the server is in."""
    found: int | None = None
    for each in (each for each in _before(log, moment) if each.is_own):
        match each.entry:
            case trace.PrimaryEstablished(primary=number):
                found = number
            case trace.QueueArranged() | trace.ReplicaStarted() | trace.PrimaryAttempted():
                found = None
    return found


def _is_begun(log: Log, moment: Moment, number: int) -> bool:
    """Whether the last step of the server is towards this primary, and it is not there yet."""
    ends = (trace.QueueArranged, trace.ReplicaStarted, trace.PrimaryAttempted, trace.PrimaryEstablished)
    steps = [each.entry for each in _before(log, moment) if isinstance(each.entry, ends)]
    return bool(steps) and isinstance(steps[-1], trace.PrimaryAttempted) and steps[-1].primary == number


def _primary_of(step: Step) -> tuple[int, tuple[str, ...]]:
    return step.primary, step.servers


def _before(log: Log, moment: Moment) -> list[Moment]:
    """Of the same server: rows of others have no order with these."""
    return log.moments[: log.moments.index(moment)]


def _risen(logs: list[Log]) -> list[tuple[Moment, Moment]]:
    """Where the last committed primary of a server is above that of the row before."""
    return [
        (before, after)
        for log in logs
        for before, after in pairwise([Moment(log.moments[0].where, log.moments[0].entry), *log.moments])
        if after.committed > before.committed
    ]


def _is_start(moment: Moment) -> bool:
    return isinstance(moment.entry, trace.ReplicaStarted)


def one_configuration(history: History) -> Cases:
    """Under one number are the same servers from the same place on; the next one is behind it, and differs in one.

    So does the first one that a server tells from those it began with.
    """
    told = [it for _, _, it in history.ever_told(trace.Reconfigured)]
    for one, other in combinations(told, 2):
        if one.place == other.place:
            yield one.number == other.number
        if one.number == other.number:
            yield (one.place, one.servers) == (other.place, other.servers)
            yield one.rule == other.rule or "" in (one.rule, other.rule)
        elif abs(one.number - other.number) == 1:
            is_behind = (one.place < other.place) == (one.number < other.number)
            yield is_behind and _differ_in_one(one.servers, other.servers)
    yield from _places(history)
    yield from _together(history)
    for log in history.logs:
        yield from (False for is_right in _numbers(log) if not is_right)
        for before, moment in pairwise(log.moments):
            if isinstance(moment.entry, trace.Reconfigured) and before.servers:
                yield _differ_in_one(before.servers, moment.servers)
            if isinstance(moment.entry, trace.ReplicaStarted) and moment.entry.servers and before.servers:
                if (before.green, before.fence) == (moment.green, moment.entry.fence):
                    yield before.servers == moment.servers
            if isinstance(moment.entry, trace.ReplicaStarted) and before.rule and moment.rule:
                if (before.green, before.fence) == (moment.green, moment.entry.fence) and before.rule != moment.rule:
                    yield False
        yield from _passes(log, {it.place for _, _, it in history.told(trace.Reconfigured)})


def _together(history: History) -> Cases:
    """Those who attempt a primary together have the same servers and the same rule, as far as they tell."""
    for (_, one, first), (_, other, second) in combinations(history.told(trace.PrimaryAttempted), 2):
        if (first.primary, first.servers) == (second.primary, second.servers):
            for told, by_other in ((one.servers, other.servers), (one.rule, other.rule)):
                if told and by_other and told != by_other:
                    yield False


def _numbers(log: Log) -> Cases:
    """A server tells of configurations that are green; without a start, a state or a force between, of each in turn."""
    ends = (trace.ReplicaStarted, trace.StateInstalled, trace.Fenced)
    for place, moment in enumerate(log.moments):
        if isinstance(moment.entry, trace.Reconfigured):
            yield not moment.is_told or moment.entry.place <= moment.green
            kinds = (trace.Reconfigured, *ends)
            last = next((it.entry for it in log.moments[:place][::-1] if isinstance(it.entry, kinds)), None)
            if isinstance(last, trace.Reconfigured):
                yield moment.entry.number == last.number + 1


def _places(history: History) -> Cases:
    """The servers at one place, but for the very first, are the same by whoever tells, finds or gets them."""
    told = [(it.place, it.servers) for _, _, it in history.told(trace.Reconfigured)]
    told += [(it.place, it.servers) for _, _, it in history.told(trace.StateInstalled)]
    told += [(it.green, it.servers) for _, _, it in history.told(trace.ReplicaStarted)]
    for (place, servers), (other_place, others) in combinations(told, 2):
        if place == other_place and place and servers and others:
            yield servers == others


def _passes(log: Log, places: set[int]) -> Cases:
    """Between two rows of green of one life stands the configuration of each place that the first one tells.

    On this side of a fence: what a force made void is owed by nobody behind it.
    """
    kinds = (trace.Greened, trace.ReplicaStarted)
    stops = [place for place, moment in enumerate(log.moments) if isinstance(moment.entry, kinds)]
    for first, last in pairwise(stops):
        one, other = log.moments[first], log.moments[last]
        both_green = isinstance(one.entry, trace.Greened) and isinstance(other.entry, trace.Greened)
        if both_green and one.is_own and other.is_own:
            here = [each.entry.place for each in log.moments[first:last] if isinstance(each.entry, trace.Reconfigured)]
            if not {place for place, _ in named_by(one)} & places <= set(here):
                yield False


def _differ_in_one(before: tuple[str, ...], after: tuple[str, ...]) -> bool:
    """Or in none: then the rule is another one."""
    return len(set(before) ^ set(after)) <= 1


def one_state(history: History) -> Cases:
    """Any two states that were kept for one position are equal; one that was installed is one of them, in its place.

    One that a server installed before the fence it keeps behind it. And none is of more than what is green there, or of
    a later place at an earlier position.
    """
    kept = _kept(history)
    torn = [it.entry for log in history.torn for it in log.rows(trace.SnapshotKept)]
    told = [(it.place, it.position) for it in (*kept, *torn)]  # type: ignore[attr-defined]
    told += [(it.place, it.position) for _, _, it in history.told(trace.StateInstalled)]
    for (place, position), (other_place, other_position) in permutations(told, 2):
        if place < other_place and position > other_position:
            yield False
    for _, moment, it in history.ever_told(trace.SnapshotKept):
        if moment.is_told and it.place > moment.green:
            yield False
    for one, other in combinations(kept, 2):
        if one.position == other.position:
            yield one.digest == other.digest
    records = {it.message: it.records for _, _, it in history.ever_told(trace.Initiated)}
    first = _first_told(history)
    for _, _, it in (*history.ever_told(trace.SnapshotKept), *history.ever_told(trace.StateInstalled)):
        names = [first.get(place) for place in range(1, it.place + 1)]
        if all(name in records for name in names):
            yield it.position == sum(records[name or ""] for name in names)
    states = {(it.place, it.position, it.digest) for it in kept}
    for _, _, state in history.told(trace.StateInstalled):
        yield (state.place, state.position, state.digest) in states


def _kept(history: History) -> list[trace.SnapshotKept | trace.StateInstalled]:
    return [
        *(it for _, _, it in history.ever_told(trace.SnapshotKept)),
        *(it for _, _, it in history.told_by_anybody(trace.SnapshotKept) if it.place <= history.copied),
        *(it for _, moment, it in history.ever_told(trace.StateInstalled) if not moment.is_own),
    ]


def _first_told(history: History) -> dict[int, str]:
    """What stands at each place by the first row of anybody that says so, or else by the side before."""
    first: dict[int, str] = {}
    for moment in history.told_green:
        for place, name in named_by(moment):
            first.setdefault(place, name)
    return {**history.logs[0].moments[0].names, **first}


def sent(history: History) -> Cases:
    """What anybody has is sent once; of a life that tells of its sends, all from the first that it tells of on.

    A server whose log was restored from a copy gives up what it sent before, and may send under the same name again.
    """
    for log in history.everybody:
        yield from (False for is_right in _own_sends(log) if not is_right)
    told = history.told_by_anybody(trace.Initiated)
    sends = [it.message for _, _, it in told]
    for message in set(sends):
        senders = [log for log, _, it in told if it.message == message]
        yield all(
            one.server == other.server and _is_restored_between(history, one, other)
            for one, other in combinations(senders, 2)
        )
    lives = {sender_of(message) for message in sends}
    for log in history.everybody:
        for moment in log.moments:
            for name in (*getattr(moment.entry, "messages", ()), *getattr(moment.entry, "queue", ())):
                if sender_of(name) in lives and name not in sends:
                    yield number_of(name) < min(number_of(each) for each in sends if sender_of(each) == sender_of(name))


def _own_sends(log: Log) -> Cases:
    """Under its own name; of a life that is none before the last start, and later than all sends before that start; and
    one number after the other. No start finds an earlier life than that of a send.
    """
    had = set[str]()
    for moment in log.moments:
        if isinstance(moment.entry, trace.Initiated):
            yield moment.entry.message not in had
        had.update((*getattr(moment.entry, "messages", ()), *getattr(moment.entry, "queue", ())))
    found: int | None = None
    sends: list[tuple[int, int]] = []  # life and number
    since = 0  # how many of them stood before the last start
    for moment in log.moments:
        match moment.entry:
            case trace.ReplicaStarted(life=life):
                yield not sends or life >= sends[-1][0]
                found, since = life, len(sends)
            case trace.Initiated(message=message):
                server, _, life_text = sender_of(message).rpartition(".")
                if server != log.server or not life_text.isdecimal():
                    yield False
                    continue
                send = int(life_text), number_of(message)
                yield found is None or send[0] >= found
                if sends[since:]:
                    yield send == (sends[-1][0], sends[-1][1] + 1)
                elif sends:
                    yield send[0] > sends[-1][0]
                sends.append(send)


def own_record(history: History) -> Cases:
    """What a node tells is about one server, which takes part itself in what it does with others, each named once; and
    each green message has one content.
    """
    together = (trace.PrimaryAttempted, trace.PrimaryCommitted, trace.PrimaryEstablished, trace.OrderDue)
    moments = [moment for log in (*history.everybody, *history.torn) for moment in log.moments]
    nodes: dict[str, list[Moment]] = {}
    for moment in sorted(moments, key=lambda each: each.where):
        nodes.setdefault(moment.where[0], []).append(moment)
    for told in nodes.values():
        entries: list[Any] = [moment.entry for moment in told]
        for entry in entries[1:]:
            yield entry.server == entries[0].server
        for entry in entries:
            servers = getattr(entry, "servers", ())
            if any(servers.count(server) > 1 for server in servers):
                yield False
            if isinstance(entry, together) and entry.server not in servers:
                yield False
            if isinstance(entry, trace.Greened) and len(entry.messages) != len(entry.digests):
                yield False


def _is_restored_between(history: History, one: Log, other: Log) -> bool:
    """Whether the server of both began from a copy after the first of them."""
    logs = [log for log in history.everybody if log.server == one.server]
    return any(log.is_restored for log in logs[logs.index(one) + 1 : logs.index(other) + 1])


def white(history: History) -> Cases:
    """What a server calls white, each server of its green prefix has had green, in one log or another.

    And no server of that prefix, with its disk intact, gets by a state what was white and not green there itself.
    """
    for log in history.logs:
        lines = [it.place for each, _, it in history.told(trace.Whitened) if each is log]
        yield from (False for before, after in pairwise(lines) if after < before)
    for log, moment, told in history.told(trace.Whitened):
        for server in moment.servers or (log.server,):
            yield any(then.green >= told.place for each in history.of(server) for then in each.moments)
    for _, whitener, told in history.told(trace.Whitened):
        for log, moment, _ in history.ever_told(trace.StateInstalled):
            before = _before(log, moment)
            is_intact = history.of(log.server) == [log]
            if log.server in whitener.servers and is_intact and before and log.server in before[-1].servers:
                yield max(each.green for each in before) >= min(told.place, moment.green)


def accepted_by_all(history: History) -> Cases:
    """What is green by an order proposal was accepted by each server of the green prefix, as it told or found."""
    accepted = {(log.server, it.proposal) for log, _, it in history.ever_told(trace.Voted) if it.accepts}
    accepted |= {(log.server, it.accepted) for log, _, it in history.ever_told(trace.ReplicaStarted)}
    for log, moment, told in history.told(trace.Greened):
        if told.proposal:
            yield all((server, told.proposal) in accepted for server in moment.servers or (log.server,))
    if history.is_last:
        for log in history.everybody:
            yield from _votes(log)


def _votes(log: Log) -> Cases:
    """What is accepted is later than all before; a start finds what was accepted last, a later one or none."""
    known: list[tuple[int, bool]] = []
    for moment in log.moments:
        match moment.entry:
            case trace.Voted(proposal=number, accepts=accepts):
                if known:
                    yield all(number > earlier or (number < earlier and not accepts) for earlier, _ in known)
                known.append((number, accepts))
            case trace.ReplicaStarted(accepted=number) if number:
                if known:
                    highest = max(earlier for earlier, _ in known)
                    last = [accepts for earlier, accepts in known if earlier == highest][-1]
                    yield number > highest or (number == highest and last)
                known.append((number, True))
