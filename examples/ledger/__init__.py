"""A replicated bank, and its totals on Spark."""
