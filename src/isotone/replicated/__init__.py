"""Replicated objects on an ordered log: dict, counter, set, queue, locks, leader, commitment, your own class."""
