"""A replicated counter: a program, the same program with a mistake, and a test that knows the difference."""
