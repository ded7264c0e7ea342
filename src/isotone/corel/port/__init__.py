"""Both ends of a replicated log's port, as automata over byte streams. See docs/protocols/host.md, "The port"."""
