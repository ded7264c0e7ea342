"""What stands on an ordered log."""
