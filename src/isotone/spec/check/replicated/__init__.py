"""Checkers of replicated objects."""

from isotone.spec.check.replicated.checker import ENTRIES as ENTRIES
from isotone.spec.check.replicated.checker import ReplicatedChecker as ReplicatedChecker
