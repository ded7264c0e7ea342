"""After the loss of a quorum for good: writing down that survivors go on alone; `corel.recover` says what that costs.

Beside what is lost there is what may *move*: a message that was green elsewhere and is only red at the survivors is
ordered anew among them. That a message became green is written down late: one that is yellow on a disk may have been.

Implements: docs/protocols/host.md, "Going on without a quorum".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from isotone.core.contract import Append
from isotone.core.errors import InputError, IsotoneError, MachineError
from isotone.corel.growth import may_order
from isotone.corel.journal import LOG
from isotone.corel.ledger import Ledger
from isotone.corel.message import Message
from isotone.corel.quorum import doubled, merged
from isotone.corel.recover import lacking, of_this_log
from isotone.daemon.storage import StateInUse
from isotone.host.inspect import check_store
from isotone.host.store import Store, owner_of


def moved(ledgers: Mapping[str, Ledger], survivors: Sequence[str]) -> list[str]:
    """The names of messages that some store has green or yellow, and every survivor that has them only red."""
    ledgers = of_this_log(ledgers, survivors)
    kept = [_red_names(ledgers[server]) for server in survivors]
    found: dict[str, None] = {}
    for server in sorted(set(ledgers) - set(survivors)):
        for message in _perhaps_green(ledgers[server]):
            having = [red for red, server in zip(kept, survivors, strict=True) if _has(ledgers[server], message)]
            if having and all(message.name in red for red in having):
                found[str(message)] = None
    return list(found)


def _has(ledger: Ledger, message: Message) -> bool:
    return ledger.queue.has(message.name)


def _red_names(ledger: Ledger) -> set[object]:
    queue = ledger.queue
    return {message.name for message in queue.between(queue.yellow, queue.end)}


def _perhaps_green(ledger: Ledger) -> list[Message]:
    queue = ledger.queue
    return queue.between(queue.forgotten, queue.yellow)


def are_quorum(ledgers: Mapping[str, Ledger], survivors: Sequence[str]) -> bool:
    """Whether these would order if they were just started: then no quorum is lost, as far as their logs show.

    Not if a recovery of them was broken off: it is to be finished.
    """
    kept, members = [ledgers[server] for server in survivors], frozenset(survivors)
    if lacking(ledgers, tuple(survivors)) or any(each.set_back or not each.ready for each in kept):
        return False
    if doubled(each.history for each in kept):
        return False  # two orders: they stand still
    history = merged([each.history for each in kept])
    configurations = [each.queue.configuration for each in kept]
    begun = any(each.identities for each in configurations)
    return (begun or all(members >= set(each.servers) for each in configurations)) and all(
        may_order(each.queue, members, history) for each in kept
    )


@contextmanager
def held(paths: Mapping[str, Path]) -> Iterator[dict[str, Store]]:
    """The stores of servers, open and locked: what is read of them meanwhile stays as it is, for none of them runs.

    `MachineError` when one is in use, `InputError` when one is not sound.
    """
    with ExitStack() as stack:
        stores: dict[str, Store] = {}
        for server, path in paths.items():
            store = stores[server] = Store(path)
            try:
                check_store(path)
                store.open(owner_of(path))
            except StateInUse as error:
                raise MachineError(f"the store of {server} is in use: stop the server first. {error}") from error
            except IsotoneError as error:
                raise InputError(f"the store of {server} must be sound and readable here: {error}") from error
            stack.callback(store.close)
        yield stores


def write_forced(stores: Iterable[Store], record: bytes) -> None:
    """Into the log of each survivor."""
    for store in stores:
        store.commit([Append(LOG, record)])
