"""Both sides of a client's session over a byte stream, boundary B4 at each end. See docs/protocols/session.md."""
