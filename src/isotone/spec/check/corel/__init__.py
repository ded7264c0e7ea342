"""The checkers of COReL's promises, over the rows of `isotone.trace.corel`."""

from isotone.spec.check.corel.checker import CorelChecker

__all__ = ["CorelChecker"]
