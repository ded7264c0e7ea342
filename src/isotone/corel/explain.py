"""Why a server orders nothing, and why a message is not green: in sentences, from the state of one replica.

Implements: [DESIGN 3], "shown, with its reason". Deviations: none.
"""

from __future__ import annotations

from isotone.corel.events import Standing
from isotone.corel.message import Origin
from isotone.corel.quorum import is_dynamic
from isotone.corel.replica import Replica

NO_SESSION = "it has no session with a daemon, or no view of the group yet"


def why_no_primary(replica: Replica) -> str:
    """Empty in a primary component."""
    if replica.flow.is_primary:
        return ""
    here = ", ".join(replica.session.servers)
    away = ", ".join(sorted(set(replica.settings.servers) - set(replica.session.servers)))
    match replica.standing:
        case Standing.DETACHED:
            return f"{replica.settings.server} orders nothing: {NO_SESSION}."
        case Standing.WAITING if replica.session.doubled:
            doubled = ", ".join(replica.session.doubled)
            return f"The view still holds an old session of {doubled}; it ends when its daemon notices."
        case Standing.WAITING:
            return "The view is in transition; the next one begins a new exchange of states."
        case Standing.REGULAR:
            return f"No quorum: {here} are here, {away} are not; needed: {_needed(replica)}."
    return f"{here} agree on their past first; now: {replica.standing.value}; awaited: {_awaited(replica)}."


def _needed(replica: Replica) -> str:
    rule = replica.settings.quorum
    if not is_dynamic(rule):
        return rule.describe()
    history = replica.ledger.history
    primaries = [f"primary {each.number} ({', '.join(each.servers)})" for each in (history.last, *history.pending)]
    return f"{rule.describe()}; counted against {' and '.join(primaries)}"


def _awaited(replica: Replica) -> str:
    return ", ".join(replica.awaited()) or "nobody"


def why_not_green(replica: Replica, name: tuple[Origin, int]) -> str:
    """Empty for a message that is green here."""
    queue = replica.ledger.queue
    text = f"{name[0]}:{name[1]}"
    if not queue.has(name):
        return f"{replica.settings.server} does not have {text}."
    open_ones = queue.between(queue.green, queue.end)
    place = next((place for place, each in enumerate(open_ones, queue.green + 1) if each.name == name), 0)
    if not place:
        return ""
    if not replica.flow.is_primary:
        return f"{text} stands at place {place}. {why_no_primary(replica)}"
    acknowledgements = replica.flow.acknowledgements
    assert acknowledgements is not None
    late = [server for server, known in sorted(acknowledgements.places.items()) if known < place]
    return f"{text} stands at place {place}; not yet acknowledged by {', '.join(late)}."
