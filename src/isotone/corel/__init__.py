"""A total order that survives partitions and crashes, as automata on boundary B4.

Implements: [COReL 3] to [COReL 7]. See docs/protocols/corel.md.
"""
