"""What a server promised, as others know it: a log that has less is an older copy, or its disk lost what it had.

A promise stands behind the write that makes it true, and no later step takes it back, so every log has at least what
its server ever promised. Whoever remembers one that a log does not keep has proof, also if it is set back itself.

Implements: [COReL 5.4, 5.6.1], the converse of Yellow and of the records behind Attempt and Commit. Deviations:
D-promise, see docs/protocols/corel-growth.md.
"""

from __future__ import annotations

from collections.abc import Mapping

from isotone.corel.identities import strangers_of
from isotone.corel.ledger import Ledger
from isotone.corel.quorum import doubled
from isotone.corel.wire import State


def state_of(server: str, ledger: Ledger, greens: Mapping[str, int], view: str = "") -> State:
    """What a server has, and what it knows of the others; ``greens``: what they told to have green on disk."""
    queue = ledger.queue
    committed, applied = (ledger.committed, ledger.applied) if ledger.vouches else (0, 0)
    return State(
        view,
        server,
        committed,
        ledger.attempted,
        queue.green,
        queue.yellow,
        queue.open_ranges(),
        ledger.history,
        tuple(sorted(greens.items())),
        tuple(sorted(known_servers(ledger))),
        queue.configuration,
        ledger.ready,
        queue.forgotten,
        ledger.context,
        ledger.fence,
        applied,
        ledger.proposal,
        ledger.context_applied,
        ledger.identity,
        tuple(sorted({known for each in queue.coming() for known in each.identities})),
        ledger.set_back,
    )


def known_servers(ledger: Ledger) -> frozenset[str]:
    """Those of all configurations that it knows of."""
    queue = ledger.queue
    return frozenset(queue.configuration.servers).union(*(each.servers for each in queue.coming()))


def why_not_count(state: State, witness: State) -> str:
    """Why a server that is started with this log would not count, as another one knows; empty if it knows nothing."""
    if strangers_of([state], [witness]):
        return "knows another log under this name"
    if witness.fence > state.fence:
        return "knows that an operator forced a primary component since"
    if doubled([state.history, witness.history]):
        return "knows another primary component under a number that this log has"
    return "knows that this server promised more than its log has" if is_contradicted(state, witness) else ""


def is_contradicted(state: State, witness: State) -> bool:
    """Whether one server knows of a promise that the log of another does not keep.

    Only where the witness knows that log as the one that its name stands for: what a learner promised before it was
    added may have been promised by a log that was lost since, which it was free to lose.
    """
    return _knows_log(witness, state) and (
        _lacks_primary(state, witness) or _lacks_green(state, witness) or state.yellow < _told_green(state, witness)
    )


def _knows_log(witness: State, state: State) -> bool:
    configuration = witness.configuration
    if configuration is None or state.server == witness.server or state.server not in configuration.servers:
        return False
    return dict(configuration.identities).get(state.server) == state.identity


def _lacks_primary(state: State, witness: State) -> bool:
    """It wrote down that it attempted every primary that others committed to with it, and that it committed to those
    that were established.
    """
    formed = [each for each in witness.history.formed if state.server in each.servers]
    if any(state.attempted < each.number for each in formed):
        return True
    last = witness.history.last
    if last not in formed or state.history.last.number >= last.number:
        return False
    return all(each.number != last.number for each in state.history.pending)


def _lacks_green(state: State, witness: State) -> bool:
    """All that is green with a server whose last primary it was in, it acknowledged there, or had when it committed.

    Not where order proposals made messages green: those that did not vote need not have them.
    """
    if witness.applied or witness.context_applied or witness.history.last not in witness.history.formed:
        return False
    return state.server in witness.history.last.servers and state.yellow < witness.green


def _told_green(state: State, witness: State) -> int:
    """Up to where it told others that everything is green on its disk."""
    return dict(witness.greens).get(state.server, 0)
