"""The dumb second version of the checkers of COReL: the invariants of [COReL 5.4] over whole queues, as they stand.

It shares nothing with `isotone.spec.check.corel`: every row of a server is followed by a whole queue, names and all,
and each invariant is asked of every such queue, or of every two. `judge` returns *holds*, *violated*, *not exercised*
or *not judged* for every property; where an operator forced a primary, over both sides of the fence.
"""

from tests.spec.naive_corel.judge import FORMULAS, judge

__all__ = ["FORMULAS", "judge"]
