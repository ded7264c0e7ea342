"""Checkers of the properties of ISIS."""

from isotone.spec.check.isis.checker import IsisChecker

__all__ = ["IsisChecker"]
