"""The other daemons of a cluster, as those that were asked know them: a question about all of it needs one address."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from isotone.cli.admin_client import AdminClient
from isotone.core.addresses import is_loopback, split_address
from isotone.core.errors import InputError, MachineError

DAEMONS_MAX = 64
AT_ONCE = 16
WITHIN_S = 3.0


class Neighbour(msgspec.Struct, frozen=True):
    """Another daemon: its status, or why it does not answer."""

    name: str
    client: AdminClient | None
    """None where it could not even be asked."""
    status: dict[str, Any] | None
    why_not: str = ""


def neighbours_of(clients: Sequence[AdminClient], statuses: Sequence[dict[str, Any]]) -> list[Neighbour]:
    """Ask those that these daemons know of and that were not asked, each of them for a few seconds at most.

    What answers has to be the daemon that is meant. The credential goes into the network, where it can be read, only if
    an address that the user gave leads there too.
    """
    asked = {status["name"] for status in statuses}
    addresses: dict[str, str] = {}
    for status in statuses:
        for peer in status["stack"]["peers"]:
            addresses.setdefault(peer["name"], "")
        for name, address in status.get("administration", {}).items():
            addresses[name] = addresses.get(name) or address
    wanted = [(name, address) for name, address in sorted(addresses.items()) if name not in asked]
    is_exposed = any(not is_loopback(split_address(client.address)[0]) for client in clients)
    credential, cluster = clients[0].credential, statuses[0]["cluster"]

    def ask(daemon: tuple[str, str]) -> Neighbour:
        name, address = daemon
        if not address:
            return Neighbour(name, None, None, f"{name}: its administration port is not known here; give --address")
        if credential and not is_exposed and not is_loopback(split_address(address)[0]):
            why = f"{name}: --address {address} would ask it, and send the credential through the network"
            return Neighbour(name, None, None, why)
        return _ask(name, cluster, AdminClient(address, credential, within_s=WITHIN_S))

    with ThreadPoolExecutor(AT_ONCE) as threads:
        found = list(threads.map(ask, wanted[:DAEMONS_MAX]))
    return found + [Neighbour(name, None, None, f"{name}: one of too many") for name, _ in wanted[DAEMONS_MAX:]]


def _ask(name: str, cluster: str, client: AdminClient) -> Neighbour:
    try:
        there = client.name()
        if there != name:
            raise InputError(f"{client.address} is {there}")
        status = client.get("/status")
        if status["cluster"] != cluster:
            raise InputError(f"{client.address} is of cluster {status['cluster']}")
    except InputError as error:
        return Neighbour(name, None, None, f"{name}: {error}")
    except MachineError as error:
        return Neighbour(name, client, None, f"{name}: {error}")
    return Neighbour(name, client, status)
