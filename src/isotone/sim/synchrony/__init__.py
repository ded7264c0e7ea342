"""View-synchronous groups under test: clients that flush, above the oracle or our own daemons."""
