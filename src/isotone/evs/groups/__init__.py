"""Light-weight groups of clients on top of daemon views. Implements: [Spread 6.4]."""

from isotone.evs.groups.actions import ChangeInterest, GroupsSettings, StateInterest, Submit
from isotone.evs.groups.groups import Groups
from isotone.evs.groups.peek import peek
from isotone.evs.groups.states import Reason, State

__all__ = ["ChangeInterest", "Groups", "GroupsSettings", "Reason", "State", "StateInterest", "Submit", "peek"]
