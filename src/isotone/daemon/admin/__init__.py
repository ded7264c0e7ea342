"""Operation of a daemon: its administration port, metrics, and logs that say why."""
