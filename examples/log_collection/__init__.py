"""Access logs of two sites in one order, and a table of them on Spark."""
