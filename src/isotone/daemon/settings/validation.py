"""What makes sense together: every rule over settings whose shape is right."""

from __future__ import annotations

from isotone.daemon.settings import number_rules, place_rules, replica_rules, security_rules
from isotone.daemon.settings.places import Path
from isotone.daemon.settings.problems import Finding
from isotone.daemon.settings.tables import DaemonSettings


def findings(settings: DaemonSettings, written: frozenset[Path]) -> list[Finding]:
    """Everything that is wrong; ``written`` are the keys that stand in the file."""
    return [
        *place_rules.findings(settings),
        *number_rules.findings(settings),
        *security_rules.findings(settings, written),
        *replica_rules.findings(settings, written),
    ]


def warnings(settings: DaemonSettings) -> list[Finding]:
    """What is allowed but doubtful."""
    return [*number_rules.warnings(settings), *security_rules.warnings(settings), *replica_rules.warnings(settings)]
