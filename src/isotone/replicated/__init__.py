"""Replicated objects on an ordered log: dict, counter, set, queue, locks, leader, barrier, commitment, your own class."""
