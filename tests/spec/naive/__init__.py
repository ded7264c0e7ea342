"""The dumb second version of the checkers: every formula evaluated as it stands over a whole run held in memory.

It shares nothing with `isotone.spec.check`: it is written from the sentences of [Spread 2.2] and from the readings in
`isotone.spec.properties`. `judge` returns *holds*, *violated* or *not exercised* for every label of EVS-C and EVS-S.
"""

from tests.spec.naive.judge import judge, violated

__all__ = ["judge", "violated"]
