"""The trace: one vocabulary for simulator, daemon and pipeline; writers and readers."""
