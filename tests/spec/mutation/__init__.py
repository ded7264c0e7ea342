"""Mutation of recorded runs: corruptions of every kind, who catches them, and why a few are no corruption at all.

`python -m tests.spec.mutation --seeds 1..20 --per-kind 10` prints the table; docs/protocols/mutation.md explains it.
"""
