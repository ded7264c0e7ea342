"""Failure detection, one automaton for all layers: measured timeouts, evidence with reasons, doubt of oneself first."""
