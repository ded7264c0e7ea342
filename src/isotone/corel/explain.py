"""Why a server orders nothing, and why a message is not green: in sentences, from the state of one replica.

Implements: [DESIGN 3], "shown, with its reason". Deviations: none.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations

from isotone.corel.configuration import Configuration, decode_rule
from isotone.corel.events import Standing
from isotone.corel.message import Origin
from isotone.corel.queue import MessageQueue
from isotone.corel.quorum import History, is_dynamic
from isotone.corel.replica import Replica
from isotone.corel.views import NOT_BEGUN, SET_BACK, STRANGER

WAITS_MAX = 8
NO_SESSION = "it has no session with a daemon, or no view of the group yet"


def why_no_primary(replica: Replica) -> str:
    """Empty in a primary component."""
    if replica.flow.is_primary:
        return _why_capped(replica)
    return f"{_why_waiting(replica)}{_who_speaks_otherwise(replica)}{_who_does_not_count(replica)}"


def _who_does_not_count(replica: Replica) -> str:
    """Others that are here, and why that does not help."""
    views, server = replica.views, replica.settings.server
    told = _left_out(
        views.other_strangers(), "is here without its log", "its disk was lost, or it was given another directory"
    )
    told += _left_out(
        views.others_set_back(), "has less than it promised", "its disk lost what was acknowledged, or is an older copy"
    )
    apart = views.round.apart if views.round and server not in views.round.apart else {}
    return told + "".join(f" {name} is apart: {why}." for name, why in sorted(apart.items()))


def _left_out(names: list[str], how: str, why: str) -> str:
    remedy = "Remove it, and add a server with a new name."
    return "".join(f" {name} {how} and does not count: {why}. {remedy}" for name in names)


def _who_speaks_otherwise(replica: Replica) -> str:
    told = replica.session.differences()
    return f" {'; '.join(told)}: it is as if it were not there. Run one program at both." if told else ""


def _why_waiting(replica: Replica) -> str:
    server, here, round = replica.settings.server, ", ".join(replica.session.servers), replica.views.round
    founders = replica.ledger.queue.configuration  # if their log has not begun
    match replica.standing:
        case Standing.DETACHED:
            return f"{server} orders nothing: {NO_SESSION}."
        case Standing.WAITING if replica.session.doubled:
            doubled = ", ".join(replica.session.doubled)
            return f"The view still holds an old session of {doubled}; it ends when its daemon notices."
        case Standing.WAITING if server in replica.session.senseless:
            return f"{server} said what nobody understands; the others go on without it until the next view."
        case Standing.WAITING if round is not None and server in round.apart:
            return f"The servers do not agree: {round.apart[server]}."
        case Standing.WAITING if round is not None and server in round.set_back:
            return _sentence(SET_BACK)
        case Standing.WAITING if round is not None and round.is_complete and not founders.identities:
            away = sorted(set(founders.servers) - set(replica.session.servers))
            return _sentence(f"{NOT_BEGUN}; missing: {', '.join(away)}")
        case Standing.WAITING:
            return "The view is in transition; the next one begins a new exchange of states."
        case Standing.REGULAR:
            return _why_no_quorum(replica)
        case Standing.LEARNING:
            return _why_learning(replica)
        case Standing.FENCED:
            return _sentence(replica.views.why_fenced())
        case Standing.STRANGER:
            return _sentence(STRANGER)
        case Standing.REMOVED:
            return f"{server} was removed from the servers."
    return f"{here} agree on their past first; now: {replica.standing.value}; awaited: {_awaited(replica)}."


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _all_left_out(replica: Replica) -> set[str]:
    """Who is in the view and does not count."""
    round = replica.views.round
    return {*round.strangers, *round.set_back, *round.apart} if round else set()


def whom_it_waits_for(replica: Replica) -> list[tuple[str, ...]]:
    """The smallest sets of servers that, with those who are here, would be a quorum; smallest first.

    A log that has not begun waits for all its servers; nobody waits for one that is here and does not count, and that
    one waits for nobody. By what is known here: under dynamic voting who comes may know of a later primary.
    """
    queue, history, left_out = replica.ledger.queue, replica.ledger.history, _all_left_out(replica)
    if replica.settings.server in left_out:
        return []
    here = frozenset(replica.session.servers)
    if not queue.configuration.identities:
        missing = tuple(sorted(set(queue.configuration.servers) - here))
        return [missing] if missing else []
    coming = tuple(queue.coming())
    servers = {server for each in (queue.configuration, *coming) for server in each.servers}
    return list(_smallest(queue.configuration, coming, history, here, tuple(sorted(servers - here - left_out))))


@lru_cache(maxsize=8)
def _smallest(
    configuration: Configuration,
    coming: tuple[Configuration, ...],
    history: History,
    here: frozenset[str],
    others: tuple[str, ...],
) -> tuple[tuple[str, ...], ...]:
    """As `may_order` judges; one more than are told, so that it can be said whether these are all.

    Kept, since one status asks more than once, and it takes some ten thousand steps where there are 14 servers.
    """
    found: list[tuple[str, ...]] = []
    for size in range(1, len(others) + 1):
        smaller = list(map(set, found))
        for more in combinations(others, size):
            if any(less.issubset(more) for less in smaller):
                continue
            members = here.union(more)
            if configuration.holds(members, history) and all(each.would_hold(members, history) for each in coming):
                found.append(more)
                if len(found) > WAITS_MAX:
                    return tuple(found)
    return tuple(found)


def _why_no_quorum(replica: Replica) -> str:
    configuration = replica.ledger.queue.configuration
    away = sorted(set(configuration.servers) - set(replica.session.servers) - _all_left_out(replica))
    missing = f"{_are(away)} not" if away else "nobody is away"
    text = f"No quorum: {_are(replica.session.servers)} here, {missing}; needed: {_needed(replica)}."
    members, history = frozenset(replica.session.servers), replica.ledger.history
    coming = [each for each in replica.ledger.queue.coming() if not each.would_hold(members, history)]
    if coming and configuration.holds(members, history):
        text = (
            f"{text} A reconfiguration to {', '.join(coming[-1].servers)} is known and asks for a quorum of those too."
        )
    return f"{text}{_waiting_for(replica)}"


def _are(names: Sequence[str]) -> str:
    return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'}"


def _waiting_for(replica: Replica) -> str:
    found = whom_it_waits_for(replica)
    if not found:
        return ""
    named = ", or ".join(" and ".join(more) for more in found[:WAITS_MAX])
    others = ", or for others" if len(found) > WAITS_MAX else ""
    dynamic = is_dynamic(decode_rule(replica.ledger.queue.configuration.rule))
    return f" It waits for {named}{others}{', unless they know of a later primary' if dynamic else ''}."


def _why_capped(replica: Replica) -> str:
    if replica.flow.cap is None:
        return ""
    place = replica.flow.cap + 1
    return f"A reconfiguration stands at place {place}, and those who are here are no quorum of the new set."


def _why_learning(replica: Replica) -> str:
    server, learner = replica.settings.server, replica.learner
    if learner.refusals:
        reasons = "; ".join(f"{teacher}: {reason}" for teacher, reason in sorted(learner.refusals.items()))
        return f"{server} cannot catch up: {reasons}."
    teachers = ", ".join(learner.teachers())
    return f"{server} catches up with the help of {teachers}." if teachers else f"{server} finds nobody to learn from."


def _needed(replica: Replica) -> str:
    history = replica.ledger.history
    if history.forced:
        return f"all of {', '.join(history.last.servers)}, once, since an operator forced them to go on alone"
    rule = decode_rule(replica.ledger.queue.configuration.rule)
    if not is_dynamic(rule):
        return rule.describe()
    primaries = [f"primary {each.number} ({', '.join(each.servers)})" for each in (history.last, *history.pending)]
    return f"{rule.describe()}; counted against {' and '.join(primaries)}"


def _awaited(replica: Replica) -> str:
    return ", ".join(replica.awaited()) or "nobody"


def _open_place(queue: MessageQueue, name: tuple[Origin, int]) -> int:
    """0 if it is green. There may be very many that are not, so the cheap comparison comes first."""
    origin, counter = name
    open_ones = enumerate(queue.between(queue.green, queue.end), queue.green + 1)
    return next((place for place, each in open_ones if each.counter == counter and each.origin == origin), 0)


def why_not_green(replica: Replica, name: tuple[Origin, int], *, no_primary: str = "") -> str:
    """Empty for a message that is green here; ``no_primary``: what `why_no_primary` says, if that is known already."""
    queue = replica.ledger.queue
    text = f"{name[0]}:{name[1]}"
    if not queue.has(name):
        return f"{replica.settings.server} does not have {text}."
    place = _open_place(queue, name)
    if not place:
        return ""
    if not replica.flow.is_primary:
        return f"{text} stands at place {place}. {no_primary or why_no_primary(replica)}"
    if replica.flow.cap is not None and place > replica.flow.cap:
        return f"{text} stands at place {place}. {_why_capped(replica)}"
    acknowledgements = replica.flow.acknowledgements
    assert acknowledgements is not None
    late = [server for server, known in sorted(acknowledgements.places.items()) if known < place]
    return f"{text} stands at place {place}; not yet acknowledged by {', '.join(late)}."
