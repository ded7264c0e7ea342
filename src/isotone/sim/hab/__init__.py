"""Data centres of hierarchical atomic broadcast under test."""
