"""Hierarchical atomic broadcast: one total order over several data centres [HAB]."""
