"""The streaming checkers of every property: `check` for a whole run, `Checker` for row by row.

See docs/protocols/checking.md for what a witness is, what is remembered and why that is enough.
"""

from isotone.spec.check.checker import ALL_BOUNDARIES, Checker, check
from isotone.spec.verdicts import EventId, Report, State, Verdict, Violation

__all__ = ["ALL_BOUNDARIES", "Checker", "EventId", "Report", "State", "Verdict", "Violation", "check"]
