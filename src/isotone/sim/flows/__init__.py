"""Distributed data flows in the simulator: the system ``flows`` of the swarm, and many nodes at little cost."""

from __future__ import annotations
