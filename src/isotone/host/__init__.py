"""The host: runs one automaton that stands on boundary B4 in a process, with timers and a disk."""
