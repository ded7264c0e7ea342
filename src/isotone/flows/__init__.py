"""Distributed data flows: protocols as networks of flows, run by a hierarchy of token rings.

Implements: [Flows 2], [Flows 3]. Deviations: see ``docs/protocols/flows.md``.
"""

from __future__ import annotations
