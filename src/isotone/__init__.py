"""Isotone: group communication and replication, with one order for everyone."""

__version__ = "0.1.0.dev0"
