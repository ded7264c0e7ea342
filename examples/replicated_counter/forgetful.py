"""The same counter with a mistake that no test on one machine finds: it forgets the transitional signal.

So it takes a SAFE message for one that every member of the view has, also when it comes after the signal and perhaps
nobody else will ever have it. If the others are the majority and go on without us, a confirmed increment is gone.
"""

from __future__ import annotations

from examples.replicated_counter.counter import Counter


class ForgetfulCounter(Counter):
    """One replica, as one would first write it."""

    def _on_transitional(self) -> None:
        """Nothing: no view has changed yet."""
