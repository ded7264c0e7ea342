"""After the loss of a quorum for good: writing down that survivors go on alone; `corel.recover` says what that costs.

Beside what is lost there is what may *move*: a message that was green elsewhere and is only red at the survivors is
ordered anew among them.

Implements: docs/protocols/host.md, "Going on without a quorum".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from isotone.core.contract import Append
from isotone.corel.journal import LOG
from isotone.corel.ledger import Ledger
from isotone.corel.message import Message
from isotone.corel.recover import of_this_log
from isotone.host.store import Store, owner_of


def moved(ledgers: Mapping[str, Ledger], survivors: Sequence[str]) -> list[str]:
    """The names of messages that some store has green, and every survivor that has them only red."""
    ledgers = of_this_log(ledgers, survivors)
    kept = [_red_names(ledgers[server]) for server in survivors]
    found: dict[str, None] = {}
    for server in sorted(set(ledgers) - set(survivors)):
        for message in _green(ledgers[server]):
            having = [red for red, server in zip(kept, survivors, strict=True) if _has(ledgers[server], message)]
            if having and all(message.name in red for red in having):
                found[str(message)] = None
    return list(found)


def _has(ledger: Ledger, message: Message) -> bool:
    return ledger.queue.has(message.name)


def _red_names(ledger: Ledger) -> set[object]:
    queue = ledger.queue
    return {message.name for message in queue.between(queue.yellow, queue.end)}


def _green(ledger: Ledger) -> list[Message]:
    queue = ledger.queue
    return queue.between(queue.forgotten, queue.green)


def write_forced(stores: Mapping[str, Path], record: bytes) -> None:
    """Into the log of each survivor; none of them may run."""
    opened: list[Store] = []
    try:
        for path in stores.values():
            store = Store(path)
            store.open(owner_of(path))
            opened.append(store)
        for store in opened:
            store.commit([Append(LOG, record)])
    finally:
        for store in opened:
            store.close()
