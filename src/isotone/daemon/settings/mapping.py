"""What the layers of one daemon make of the settings: microseconds, addresses, structs of the stack."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from isotone.core.addresses import DEFAULT_PORT, is_ip, join_address, split_address
from isotone.core.contract import Address
from isotone.core.errors import InputError
from isotone.core.patterns import ByPattern
from isotone.daemon.settings.problems import did_you_mean
from isotone.daemon.settings.tables import ClientLimits, Daemon, DaemonSettings, GroupLimits, Site
from isotone.detector.settings import DetectorSettings
from isotone.evs.groups import GroupsSettings
from isotone.evs.links.hop.settings import HopSettings
from isotone.evs.links.ring import RingSettings
from isotone.evs.links.tcp import TcpSettings
from isotone.evs.membership import InterimViews, KnownDaemon, LinkPlan, MembershipSettings, SiteGateways
from isotone.evs.membership.settings import PATIENT_RING
from isotone.evs.overlay.topology import LinkLimits, LinkProtocol
from isotone.evs.sessions.settings import ServerSettings, SlowPolicy
from isotone.evs.stack import StackSettings
from isotone.evs.transport.settings import TransportSettings

ONLY_SITE = "lan"
"""The site of all daemons where the file names none."""
RING_HEAD_BYTES = HopSettings().packet_bytes - RingSettings().body_bytes
MS = 1_000


def chosen_daemon(settings: DaemonSettings, name: str = "", hostname: str = "") -> Daemon:
    """Whose daemon this process is: the one that is named, the only one, or the one named as this machine."""
    known = [each.name for each in settings.daemon]
    if name:
        daemon = settings.daemon_named(name)
        if daemon is None:
            raise InputError(f"the settings have no [[daemon]] named {name}; {did_you_mean(name, known)}")
        return daemon
    if len(known) == 1:
        return settings.daemon[0]
    daemon = settings.daemon_named(hostname) or settings.daemon_named(hostname.partition(".")[0])
    if daemon is None:
        if not known:
            raise InputError("the settings have no [[daemon]]; add one with the name of this daemon")
        raise InputError(f"which daemon is this? Say --name with one of: {', '.join(known)}")
    return daemon


def site_name(settings: DaemonSettings, daemon: Daemon) -> str:
    """The site of a daemon; where it says none, the only one that there is."""
    if daemon.site:
        return daemon.site
    return settings.site[0].name if settings.site else ONLY_SITE


def site_of(settings: DaemonSettings, daemon: Daemon) -> Site:
    """The same with its settings."""
    name = site_name(settings, daemon)
    return settings.site_named(name) or Site(name=name)


def daemon_address(daemon: Daemon) -> Address:
    """Where other daemons reach it."""
    return join_address(daemon.address, daemon.port)


def known_daemons(settings: DaemonSettings, name: str = "") -> tuple[KnownDaemon, ...]:
    """All that the file names, but this one."""
    return tuple(
        KnownDaemon(each.name, site_name(settings, each), daemon_address(each))
        for each in settings.daemon
        if each.name != name
    )


def fixed_seeds(settings: DaemonSettings) -> tuple[Address, ...]:
    """Seeds that need no look-up."""
    seeds = [split_address(seed, default_port=DEFAULT_PORT) for seed in settings.cluster.seeds]
    return tuple(dict.fromkeys(join_address(host, port) for host, port in seeds if is_ip(host)))


def link_plans(settings: DaemonSettings) -> tuple[LinkPlan, ...]:
    """How sites are linked."""
    return tuple(
        LinkPlan(
            a=min(each.between),
            b=max(each.between),
            weight=each.weight,
            protocol=LinkProtocol(each.protocol),
            limits=LinkLimits(each.bits_per_second, each.burst_bytes),
        )
        for each in settings.link
    )


def detector_settings(settings: DaemonSettings) -> DetectorSettings:
    """Of the failure detector."""
    times = settings.timeouts
    return DetectorSettings(
        keep_alive_us=times.keep_alive_ms * MS,
        silence_floor_us=times.silence_floor_ms * MS,
        silence_ceiling_us=times.silence_ceiling_ms * MS,
        round_trip_initial_us=times.round_trip_initial_ms * MS,
        pause_max_us=times.pause_max_ms * MS,
    )


def transport_settings(settings: DaemonSettings, site: Site) -> TransportSettings:
    """Of links and windows."""
    limits, times = settings.limits, settings.timeouts
    stall_us = times.tcp_stall_ms * MS
    body_bytes = limits.packet_bytes - RING_HEAD_BYTES
    return TransportSettings(
        ring=msgspec.structs.replace(PATIENT_RING, body_bytes=body_bytes, multicast=bool(site.multicast)),
        hop=HopSettings(
            packet_bytes=limits.packet_bytes,
            fail_after_us=times.link_fail_ms * MS,
            round_trip_initial_us=times.round_trip_initial_ms * MS,
        ),
        tcp=TcpSettings(stall_us=stall_us, unreported_us=3 * stall_us),
        site_window_bytes=limits.site_window_bytes,
        waiting_bytes_max=limits.waiting_bytes_max,
        record_network=settings.trace.network,
    )


def membership_settings(settings: DaemonSettings, name: str) -> MembershipSettings:
    """Of the daemon membership, for the daemon of this name."""
    times, site = settings.timeouts, site_of(settings, chosen_daemon(settings, name))
    return MembershipSettings(
        cluster=settings.cluster.name,
        known=known_daemons(settings, name),
        seeds=fixed_seeds(settings),
        links=link_plans(settings),
        gateways=tuple(SiteGateways(each.name, each.gateways) for each in settings.site if each.gateways),
        detector=detector_settings(settings),
        transport=transport_settings(settings, site),
        multicast=settings.cluster.announce and bool(site.multicast),
        interim_views=InterimViews(settings.cluster.interim_views),
        first_wait_us=settings.cluster.first_wait_ms * MS,
        gather_us=times.gather_ms * MS,
        gather_max_us=times.gather_max_ms * MS,
        exchange_us=times.exchange_ms * MS,
        lookup_us=times.lookup_ms * MS,
        lookup_max_us=times.lookup_max_ms * MS,
        forget_us=times.forget_ms * MS,
        waiting_bytes_max=settings.limits.waiting_bytes_max,
    )


def stack_settings(settings: DaemonSettings, name: str) -> StackSettings:
    """Of the stack of the daemon of this name."""
    limits = settings.limits
    groups = GroupsSettings(
        message_bytes_max=limits.message_bytes_max,
        groups_max=limits.groups_max,
        groups_per_session_max=limits.groups_per_session_max,
    )
    membership = membership_settings(settings, name)
    return StackSettings(membership=membership, groups=groups, pruning=settings.cluster.pruning)


def server_settings(settings: DaemonSettings) -> ServerSettings:
    """Of the sessions of clients."""
    limits, times = settings.limits, settings.timeouts
    return ServerSettings(
        sessions_max=limits.sessions_max,
        handshakes_max=limits.handshakes_max,
        handshake_us=times.handshake_ms * MS,
        heartbeat_us=times.client_heartbeat_ms * MS,
        silence_us=times.client_silence_ms * MS,
        resume_within_us=times.client_resume_ms * MS,
        resume_bytes_max=limits.resume_bytes_max,
        window_bytes=limits.window_bytes,
        large_bytes_max=limits.large_messages_bytes_max,
        message_bytes_max=limits.message_bytes_max,
        buffer_bytes_max=limits.buffer_bytes_max,
        buffers_bytes_max=limits.buffers_bytes_max,
        policy=SlowPolicy(limits.slow_policy),
        policies=slow_policies(limits.group),
        client_policies=slow_policies(limits.client),
    )


def slow_policies(rules: Sequence[GroupLimits | ClientLimits]) -> ByPattern[SlowPolicy]:
    """By group or by client."""
    return ByPattern([(each.pattern, SlowPolicy(each.slow_policy)) for each in rules])
