"""How a replica is set up."""

from __future__ import annotations

import msgspec

from isotone.core.names import check_client_name, check_group_name
from isotone.corel.quorum import Rule, check_quorum

SETTLE_US = 20_000
RECONNECT_US = 100_000


class ReplicaSettings(msgspec.Struct, frozen=True, kw_only=True):
    """One server of a replication group. Its name is also its client's private name at B4, so it may move."""

    server: str
    servers: tuple[str, ...]
    """The founders: the same at every server and for ever. A server that is added later is not among them."""
    group: str
    quorum: Rule
    """Of the founders; a reconfiguration may carry another."""
    waiting_records_max: int = 65_536
    """Appends that wait to be sent; more are refused."""
    waiting_bytes_max: int = 64 * 1024 * 1024
    held_bytes_max: int = 4 * 1024 * 1024 * 1024
    """Of messages in memory, which are all that are not forgotten: with more, appends are refused, and nothing else."""
    record_bytes_max: int = 8 * 1024 * 1024
    """A group service takes messages of this size; the oracle takes none over 64 KiB."""
    message_bytes_max: int = 48 * 1024
    """Records travel together up to this size; a larger one travels alone."""
    messages_under_way_max: int = 8
    """Own messages sent and not yet heard; more wait, and travel together."""
    settle_us: int = SETTLE_US
    """So long after the last green message the green line is written and told, if no message carried it."""
    reconnect_us: int = RECONNECT_US
    checkpoint_records: int = 4_096
    """After so many records the log is cut, if at least half of the messages in it are no longer held."""

    snapshots: bool = False
    """Whether the application offers snapshots; if so, nothing is forgotten that none of them covers."""
    transfer_bytes_per_s: int = 64 * 1024 * 1024
    """The pace at which this server catches up."""
    proposals: bool = False
    """Whether it makes order proposals and gives new votes [COReL 7.1]; what is voted on already stands in any case."""

    def check(self) -> ReplicaSettings:
        """Refuse what cannot work."""
        check_group_name(self.group)
        for server in (self.server, *self.servers):
            check_client_name(server)
        check_quorum(self.quorum, self.servers)
        return self
