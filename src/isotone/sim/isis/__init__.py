"""ISIS under test: sites with processes above the oracle or our own daemons."""
