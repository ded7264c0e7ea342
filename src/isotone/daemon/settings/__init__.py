"""Settings of a daemon: one TOML file, its checks, and what the layers make of it. See docs/settings.md."""

from isotone.daemon.settings.dev import dev_notice, dev_settings
from isotone.daemon.settings.loading import Loaded, load, load_in_full, read
from isotone.daemon.settings.mapping import (
    chosen_daemon,
    daemon_address,
    known_daemons,
    link_plans,
    server_settings,
    site_name,
    site_of,
    stack_settings,
)
from isotone.daemon.settings.problems import Problem, SettingsError
from isotone.daemon.settings.tables import Daemon, DaemonSettings
from isotone.daemon.settings.whereabouts import Files, Listeners, files_of, listeners_of

__all__ = [
    "Daemon",
    "DaemonSettings",
    "Files",
    "Listeners",
    "Loaded",
    "Problem",
    "SettingsError",
    "chosen_daemon",
    "daemon_address",
    "dev_notice",
    "dev_settings",
    "files_of",
    "known_daemons",
    "link_plans",
    "listeners_of",
    "load",
    "load_in_full",
    "read",
    "server_settings",
    "site_name",
    "site_of",
    "stack_settings",
]
