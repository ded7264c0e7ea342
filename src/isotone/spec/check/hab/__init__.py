"""The checkers of hierarchical atomic broadcast."""

from isotone.spec.check.hab.checker import HabChecker

__all__ = ["HabChecker"]
