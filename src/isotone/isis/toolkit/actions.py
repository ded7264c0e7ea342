"""Actions that the application itself carries out, and the tools of a group that is no resilient object.

Implements: [ISIS 5.2]. Deviations: none.
"""

from __future__ import annotations

from isotone.core.contract import Action
from isotone.isis.toolkit.boards import Boards
from isotone.isis.toolkit.data import Data
from isotone.isis.toolkit.locks import Locks
from isotone.isis.toolkit.member import Member, Tool
from isotone.isis.toolkit.process import GroupKind
from isotone.isis.toolkit.requests import Requests


class ActionWanted(Action, frozen=True, gc=False):
    """This member is the coordinator: carry the action out, then `Requests.finish` it; perhaps not as the first."""

    group: str
    id: str
    caller: str
    body: bytes


class Actions(Requests):
    """Requests that the application of the coordinator carries out."""

    def __init__(self, member: Member, sites: tuple[str, ...]) -> None:
        super().__init__(member, sites, self)

    def perform(self, id: str, caller: str, body: bytes) -> None:
        """Let the application do it."""
        self.member.out.say(ActionWanted(self.member.group, id, caller, body))

    def change(self, id: str, changes: bytes, *, failed: bool) -> None:
        """An action has no changes but what it did with the other tools."""


def general_kind(sites: tuple[str, ...], quorum: int = 1) -> GroupKind:
    """A group with actions, locks, data and boards."""

    def build(member: Member) -> tuple[Tool, ...]:
        actions = Actions(member, sites)
        return actions, Locks(member, actions.steward_of, lambda owner, item: False), Data(member), Boards(member)

    return GroupKind(build, quorum)
