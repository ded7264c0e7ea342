"""The administration port of one daemon: its own HTTP listener, loopback unless the settings say otherwise."""

from __future__ import annotations

import logging

import msgspec

from isotone.core.addresses import join_address, split_address
from isotone.core.contract import Address
from isotone.core.errors import MachineError
from isotone.daemon.admin.http import HttpLimits, HttpServer
from isotone.daemon.admin.metrics import Metrics
from isotone.daemon.admin.operated import Operated
from isotone.daemon.admin.principals import Audit, Judge, LoggedAudit, check_open, open_judge
from isotone.daemon.admin.report import Others
from isotone.daemon.admin.routes import FREE, Routes

log = logging.getLogger("isotone.admin")


class AdminSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where it listens, and its bounds."""

    address: str = "127.0.0.1:4810"
    """Host and port; port 0 lets the kernel choose."""
    metrics_open: bool = False
    """Whether /metrics needs no principal."""
    limits: HttpLimits = HttpLimits()


class AdminServer:
    """Serves one daemon. A port that asks for no credential, because it ``is_open`` or there is no judge, is only on
    loopback."""

    def __init__(
        self,
        node: Operated,
        settings: AdminSettings | None = None,
        *,
        judge: Judge | None = None,
        is_open: bool = False,
        audit: Audit | None = None,
        others: Others = dict,
    ) -> None:
        self.settings = settings or AdminSettings()
        self.address = Address("")
        self.metrics = Metrics(node)
        self._host, self._port = split_address(self.settings.address, port_min=0)
        if is_open or judge is None or judge is open_judge:
            check_open(self._host)
        routes = Routes(
            node,
            judge=judge or open_judge,
            audit=audit or LoggedAudit(),
            metrics=self.metrics,
            others=others,
            free=(*FREE, "/metrics") if self.settings.metrics_open else FREE,
        )
        self._server = HttpServer(routes.handle, self.settings.limits)
        self.metrics.requests = self._server.answers

    async def start(self) -> None:
        """Listen; `address` says where."""
        try:
            host, port = await self._server.start(self._host, self._port)
        except OSError as error:
            raise MachineError(
                f"cannot listen on {self.settings.address} for administration: {error.strerror or error}\
; [admin] listen and port name another one"
            ) from error
        self.address = join_address(host, port)
        log.info("administration listens", extra={"fields": {"address": self.address}})

    async def stop(self) -> None:
        """Close the listener and every connection."""
        await self._server.stop()
