"""An order proposal: the source's order of what is not green, and who voted how.

Implements: [COReL 7.1.2]. Deviations: D-proposal, see docs/protocols/corel-proposals.md.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from isotone.core.codec.control import Natural
from isotone.corel.configuration import Configuration
from isotone.corel.message import Origin
from isotone.corel.queue import MessageQueue

PROPOSED_MAX = 1_024  # so many messages at most stand in one proposal; more only if more are yellow
YELLOW_MAX = 65_536  # with more than so many yellow ones nothing is proposed

Level = tuple[int, int]
"""A primary, and the last order proposal applied after it."""


class Proposal(msgspec.Struct, frozen=True, gc=False, array_like=True, forbid_unknown_fields=True):
    """Later ones have higher numbers: one source, which begins the next only when it knows what became of the last."""

    number: Natural
    configuration: Natural  # of the green prefix, at the source
    committed: Natural  # Last_Committed_Primary, at the source
    applied: Natural  # the last proposal that was applied in this epoch: its predecessor, unless that was rejected
    after: Natural  # its green line
    yellow: Natural  # how many of the names are yellow at the source
    names: tuple[tuple[Origin, int], ...]  # in the order of the source's queue
    accepted: tuple[str, ...] = ()  # sorted
    rejected: tuple[str, ...] = ()

    @property
    def identity(self) -> tuple[int, int]:
        """Another configuration may have another source."""
        return self.configuration, self.number

    @property
    def level(self) -> Level:
        """Of the source."""
        return self.committed, self.applied

    @property
    def end(self) -> int:
        """The place of the last message."""
        return self.after + len(self.names)

    def with_votes(self, accepted: tuple[str, ...], rejected: tuple[str, ...]) -> Proposal:
        """The same, knowing these votes too."""
        return msgspec.structs.replace(
            self,
            accepted=tuple(sorted({*self.accepted, *accepted})),
            rejected=tuple(sorted({*self.rejected, *rejected})),
        )

    def is_accepted(self, servers: tuple[str, ...]) -> bool:
        """Whether all of them accepted."""
        return not self.rejected and set(servers) <= set(self.accepted)


def merged_proposal(known: Proposal | None, told: Proposal | None) -> Proposal | None:
    """The later of two; of the same, with the votes of both."""
    if known is None or told is None:
        return known or told
    if known.identity != told.identity:
        return max(known, told, key=lambda each: each.identity)
    return known.with_votes(told.accepted, told.rejected)


class Vote(Enum):
    """What a server has to say to a proposal."""

    ACCEPT = "accept"
    REJECT = "reject"
    LATER = "later"  # it does not know enough yet


def is_asked(server: str, proposal: Proposal, configuration: Configuration) -> bool:
    """The servers of its configuration vote. A learner or a removed server takes part in views, and has no say."""
    return proposal.configuration == configuration.number and server in configuration.servers


def vote_on(proposal: Proposal, queue: MessageQueue, level: Level) -> Vote:
    """[COReL 7.1.3], with what 7.1.4 says about proposals that outrun their messages. ``level``: of the voter."""
    if proposal.rejected or level > proposal.level:
        return Vote.REJECT
    if level < proposal.level or queue.green < proposal.after:
        return Vote.LATER
    if queue.green > proposal.end or queue.forgotten > proposal.after:
        return Vote.REJECT
    known = [message.name for message in queue.between(proposal.after, queue.green)]
    if known != list(proposal.names[: len(known)]) or queue.yellow < proposal.after + proposal.yellow:
        return Vote.REJECT
    if not all(queue.has(name) for name in proposal.names):
        return Vote.LATER
    yellow = [message.name for message in queue.between(proposal.after, proposal.after + proposal.yellow)]
    return Vote.ACCEPT if yellow == list(proposal.names[: proposal.yellow]) else Vote.REJECT


def stands(proposal: Proposal, queue: MessageQueue, level: Level) -> bool:
    """Whether it can be ordered as proposed, here and now. ``level``: of this server.

    It does not look at the yellow line: a server that lags behind and is not asked may make that retreat, and whoever
    accepted has given its word.
    """
    is_of_now = (proposal.configuration, proposal.level) == (queue.configuration.number, level)
    known = queue.green >= proposal.after and all(queue.has(name) for name in proposal.names)
    return is_of_now and known and not proposal.rejected
