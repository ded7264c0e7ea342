"""Measurements of this machine: what the parts of Isotone cost."""
