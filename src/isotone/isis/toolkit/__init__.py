"""The ISIS toolkit: what programs are built with, above a small layer of groups. Automata; the shell is in the host."""
