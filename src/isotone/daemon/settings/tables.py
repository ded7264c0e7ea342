"""The tables of the settings file, each key with its default. Times are milliseconds, sizes bytes, 0 mostly "no limit".

The structs say what may stand in the file and nothing else; `validation` says what makes sense together, `mapping` what
the layers make of it. docs/settings.md explains each key; a test compares.

Implements: [Spread 3.2], sites and the daemons in them; [Spread 3.3], links between sites and their weights.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from isotone.core.addresses import DEFAULT_PORT

KIB, MIB, GIB = 1024, 1024 * 1024, 1024 * 1024 * 1024
ADMIN_PORT = 4810
SPREAD_PORT = 4813
REPLICA_PORT = 4816

SlowPolicyName = Literal["block", "disconnect"]
Permission = Literal["connect", "join", "send", "log", "admin"]
SpreadMethod = Literal["NULL", "IP", "PWORD"]


class Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One table of the file: unknown keys are errors."""


class Cluster(Table, frozen=True, kw_only=True):
    """What all daemons have in common."""

    name: str = "isotone"
    seeds: tuple[str, ...] = ()
    resolve_interval_ms: int = 30_000
    announce: bool = True
    interim_views: Literal["skip", "deliver"] = "skip"
    first_wait_ms: int = 0
    pruning: bool = True
    state_directory: str = "/var/lib/isotone"


class Site(Table, frozen=True, kw_only=True):
    """A LAN."""

    name: str
    multicast: str = ""
    gateways: tuple[str, ...] = ()


class Daemon(Table, frozen=True, kw_only=True):
    """One daemon: where others reach it, and where it listens."""

    name: str
    site: str = ""
    address: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    listen: str = ""
    interface: str = ""
    client_port: int | None = None
    client_listen: str = ""
    unix_socket: str = ""
    admin_port: int | None = None
    spread_port: int | None = None
    public_key: str = ""
    certificate: str = ""


class Link(Table, frozen=True, kw_only=True):
    """Two sites that are linked."""

    between: tuple[str, str]
    protocol: Literal["hop", "tcp"] = "hop"
    weight: int | None = None
    bits_per_second: int = 0
    burst_bytes: int = 0


class GroupLimits(Table, frozen=True, kw_only=True):
    """What holds for groups of this name or pattern."""

    pattern: str
    slow_policy: SlowPolicyName


class ClientLimits(Table, frozen=True, kw_only=True):
    """What holds for clients of this name or pattern."""

    pattern: str
    slow_policy: SlowPolicyName


class Limits(Table, frozen=True, kw_only=True):
    """Bounds of memory and of numbers."""

    sessions_max: int = 1024
    handshakes_max: int = 256
    groups_max: int = 100_000
    groups_per_session_max: int = 10_000
    message_bytes_max: int = 16 * MIB
    window_bytes: int = 128 * KIB
    large_messages_bytes_max: int = 72 * MIB
    buffer_bytes_max: int = 32 * MIB
    buffers_bytes_max: int = 512 * MIB
    resume_bytes_max: int = 32 * MIB
    waiting_bytes_max: int = 4 * MIB
    site_window_bytes: int = 16 * MIB
    packet_bytes: int = 1_400
    slow_policy: SlowPolicyName = "block"
    group: tuple[GroupLimits, ...] = ()
    client: tuple[ClientLimits, ...] = ()


class Timeouts(Table, frozen=True, kw_only=True):
    """Floors, ceilings and intervals; the timeouts between daemons themselves are measured."""

    keep_alive_ms: int = 250
    silence_floor_ms: int = 400
    silence_ceiling_ms: int = 10_000
    round_trip_initial_ms: int = 100
    pause_max_ms: int = 200
    gather_ms: int = 200
    gather_max_ms: int = 2_000
    exchange_ms: int = 2_500
    lookup_ms: int = 2_000
    lookup_max_ms: int = 8_000
    forget_ms: int = 600_000
    link_fail_ms: int = 5_000
    tcp_stall_ms: int = 30_000
    client_heartbeat_ms: int = 2_000
    client_silence_ms: int = 10_000
    client_resume_ms: int = 30_000
    handshake_ms: int = 10_000
    stop_ms: int = 5_000


class Access(Table, frozen=True, kw_only=True):
    """One rule of the access list: these may do this, there."""

    principals: tuple[str, ...] = ("*",)
    groups: tuple[str, ...] = ("*",)
    allow: tuple[Permission, ...]


class Security(Table, frozen=True, kw_only=True):
    """Keys between daemons, TLS and credentials of clients, and who may do what."""

    mode: Literal["open", "keys"] = "open"
    private_key_file: str = ""
    authority: str = ""
    revoked: tuple[str, ...] = ()
    tls_certificate_file: str = ""
    tls_key_file: str = ""
    client_authority_file: str = ""
    credentials_file: str = ""
    anonymous: bool = True
    audit_file: str = ""
    access: tuple[Access, ...] = ()


class Trace(Table, frozen=True, kw_only=True):
    """What is written down."""

    level: Literal["off", "buffered", "full"] = "buffered"
    directory: str = "/var/lib/isotone/trace"
    identity: str = ""
    rotate_bytes: int = 64 * MIB
    retain_bytes: int = 4 * GIB
    retain_hours: int = 7 * 24
    journal: bool = False
    network: bool = False


class Spread(Table, frozen=True, kw_only=True):
    """Clients of Spread."""

    enabled: bool = False
    share_port: bool = False
    listen: str = "127.0.0.1"
    port: int = SPREAD_PORT
    unix_socket: str = ""
    methods: tuple[SpreadMethod, ...] = ("NULL",)
    required_methods: tuple[SpreadMethod, ...] = ()
    networks: tuple[str, ...] = ("127.0.0.0/8", "::1/128", "unix")
    sessions_max: int = 1024
    groups_per_session_max: int = 10_000
    message_bytes_max: int = 143_952
    oversize: Literal["skip", "disconnect"] = "skip"
    slow_policy: SlowPolicyName = "disconnect"


class Faults(Table, frozen=True, kw_only=True):
    """Faults on purpose, for tests and drills."""

    enabled: bool = False


class Admin(Table, frozen=True, kw_only=True):
    """HTTP for metrics, health and administration."""

    enabled: bool = True
    listen: str = "127.0.0.1"
    port: int = ADMIN_PORT
    metrics_open: bool = False
    log_format: Literal["text", "json"] = "text"
    log_level: Literal["debug", "info", "warning", "error"] = "info"


class ReplicaServer(Table, frozen=True, kw_only=True):
    """One server of the replicated log."""

    name: str
    daemon: str = ""
    votes: int = 1
    joins: bool = False
    address: str = ""
    port: int | None = None


class ReplicaRule(Table, frozen=True, kw_only=True):
    """A part of the quorum rule."""

    kind: Literal["majority", "votes", "tie-breaker", "monarch", "dynamic"]
    server: str = ""
    minimum: int = 1


class Replica(Table, frozen=True, kw_only=True):
    """The replicated log: who keeps it, and who may order."""

    group: str = "replica"
    directory: str = ""
    sync: Literal["every-commit", "left-to-the-system"] = "every-commit"
    attach: Literal["embedded", "client"] = "embedded"
    combine: Literal["all", "any"] = "all"
    proposals: bool = False
    listen: str = "127.0.0.1"
    port: int = REPLICA_PORT
    reserve_bytes: int = 64 * MIB
    disk_within_ms: int = 5_000
    maybe_after_ms: int = 2_000
    waiting_records_max: int = 65_536
    held_bytes_max: int = 4 * GIB
    transfer_bytes_per_s: int = 64 * MIB
    archive: str = ""
    archive_credential_file: str = ""
    server: tuple[ReplicaServer, ...] = ()
    rule: tuple[ReplicaRule, ...] = ()


class DaemonSettings(Table, frozen=True, kw_only=True):
    """The whole file. ``dev`` is never in a file: it says that these are the settings of ``--dev``."""

    cluster: Cluster = Cluster()
    site: tuple[Site, ...] = ()
    daemon: tuple[Daemon, ...] = ()
    link: tuple[Link, ...] = ()
    limits: Limits = Limits()
    timeouts: Timeouts = Timeouts()
    security: Security = Security()
    trace: Trace = Trace()
    spread: Spread = Spread()
    faults: Faults = Faults()
    admin: Admin = Admin()
    replica: Replica = Replica()
    dev: bool = False

    def daemon_named(self, name: str) -> Daemon | None:
        """Its table, if there is one."""
        return next((each for each in self.daemon if each.name == name), None)

    def site_named(self, name: str) -> Site | None:
        """Its table, if there is one."""
        return next((each for each in self.site if each.name == name), None)
