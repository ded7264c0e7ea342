"""The paper's programs as texts, and some of our own. `isotone flow show NAME` prints one.

Implements: [Flows Figure 3], [Flows 4.1], [Flows 4.2]. Deviations: Dw3 the commit program is reformulated; the paper's
own stands as ``COMMIT_AS_PRINTED``, which the prover refuses.
"""

from __future__ import annotations

from collections.abc import Mapping

MULTICAST = r"""program multicast
# Reliable multicast: a packet is delivered when all have it; who lacks one gets it from a node that has it.
input R : set                                     # packets received at this node
global S  = /\ R [in-order, guarded, monotonic] where S <= R   # received by all
global R' = \/ R [in-order]                       # received by somebody
M  = self * (R' \ R)                              # what this node lacks
global F' = merge M [in-order]                    # what all nodes lack
F  = distribute F' where F|2 <= R                 # to be forwarded by this node, which has it
D  = disseminate S                                # to be delivered
output F, D
"""

PHASES = """program phases
# Nobody enters phase k + 1 before everybody has entered phase k.
input L : int                                     # the last phase that this node entered
L' = min L [in-order, guarded, monotonic]         # the last phase of the slowest
N  = L' + 1                                       # the last phase that anybody may enter
output N
"""

COMMIT_AS_PRINTED = r"""program commit
input C : set
input A : set
C' = /\ (C \ D) [in-order, guarded, monotonic]
A' = \/ (A \ D) [in-order, guarded, monotonic]
D  = C' \/ A'
output C', A'
"""

COMMIT = r"""program commit
# A transaction commits if all nodes vote for it, aborts if one votes against it; each is decided once.
input C : set                                     # votes for, all that this node ever gave
input A : set                                     # votes against
P  = decided(D)                                   # no vote on these matters any more
Cp = C \/ P
Ap = A \ P
C' = /\ Cp [in-order, guarded, monotonic]         # all vote for it
A' = \/ Ap [in-order]                             # somebody votes against it
D  = decide(C', A', 5000) assumed                 # the first word counts; outcomes of the last 5000 are kept
output D
"""

HEALTH = """program health
# Whether all nodes are well, the least version that runs, and how much room the fullest has.
input well : bool free
input version : int
input used : int free
all_well = all well [in-order]
lowest   = min version [in-order, guarded, monotonic]
fullest  = max used [in-order]
output all_well, lowest, fullest
"""

PROGRAMS: Mapping[str, str] = {"multicast": MULTICAST, "phases": PHASES, "commit": COMMIT, "health": HEALTH}
