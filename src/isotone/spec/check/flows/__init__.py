"""Checkers of distributed data flows."""

from __future__ import annotations

from isotone.spec.check.flows.checker import FlowChecker

__all__ = ["FlowChecker"]
