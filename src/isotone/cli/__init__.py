"""The ``isotone`` command."""
