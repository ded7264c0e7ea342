"""Replicated SQLite: procedures that run at every replica in the one order, and the copies of the database."""
