"""Which request is which question or act: the whole surface of the administration port on one page.

| request | answer |
|---|---|
| GET / | a page that shows the status live in a browser |
| GET /health | the process answers |
| GET /ready | 200 when a daemon view works and clients are served, else 503 with the reason |
| GET /metrics | for Prometheus |
| GET /status | `DaemonStatus` |
| GET /groups?name=PATTERN&limit=N | groups with their members |
| GET /clients?limit=N | clients, those who hold most first |
| GET /explain?question=… | why a message is not delivered, why there is no view, why a daemon was excluded |
| GET /trace, POST /trace {"level": …} | how the record stands; another level |
| GET /faults, POST /faults {"rules": […]} | faults that are injected; others instead |
| POST /reload, POST /stop {"reason": …} | as SIGHUP and SIGTERM |

Health and readiness need no principal: they are for supervisors, and tell nothing else. Nor does the page: it
asks for the status itself.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import msgspec

from isotone.core.addresses import host_of
from isotone.core.errors import InputError, MachineError
from isotone.daemon.admin.clients import LISTED_MAX, groups_of
from isotone.daemon.admin.http import Request, Response, plain
from isotone.daemon.admin.metrics import CONTENT_TYPE, Metrics
from isotone.daemon.admin.operated import Operated
from isotone.daemon.admin.page import page_response
from isotone.daemon.admin.principals import Audit, Judge, credential_of, why_foreign
from isotone.daemon.admin.questions import answer
from isotone.daemon.admin.report import Others, clients_at, readiness_of, status_of
from isotone.evs.sessions.admission import Denied

_T = TypeVar("_T")
Act = Callable[[Request, str], Awaitable[tuple[str, Response]]]
"""Does what was asked; returns what to write to the audit log, and the answer."""

FREE = ("/", "/health", "/ready")
REFUSALS_MAX = 1_024
DETAIL_MAX = 1_000
NO_FAULTS = "faults are not enabled: write enabled = true below [faults] in the settings, and reload the daemon"


class TraceAsked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Another level of the trace."""

    level: str


class FaultsAsked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """These faults, instead of those that are injected now."""

    rules: list[dict[str, object]]


class StopAsked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why the daemon is to stop."""

    reason: str = "asked for by an administrator"


class Routes:
    """The handler of all requests to one daemon's administration port."""

    def __init__(
        self,
        node: Operated,
        *,
        judge: Judge,
        audit: Audit,
        metrics: Metrics,
        others: Others = dict,
        free: Sequence[str] = FREE,
    ) -> None:
        self._node, self._judge, self._audit, self._metrics = node, judge, audit, metrics
        self._free = free  # paths that need no principal
        self._refusals: OrderedDict[tuple[str, str, str], None] = OrderedDict()  # that are written down already
        self._looks: dict[str, Callable[[Request], Response]] = {
            "/": lambda _: page_response(),
            "/health": self._health,
            "/ready": self._ready,
            "/metrics": self._metrics_text,
            "/status": lambda _: json_of(200, status_of(node, others())),
            "/groups": self._groups,
            "/clients": lambda request: json_of(200, clients_at(node, _limit(request))),
            "/explain": lambda request: json_of(200, answer(node.stack, request.query, node.now())),
            "/trace": lambda _: json_of(200, node.trace_status()),
            "/faults": self._faults,
        }
        self._acts: dict[str, Act] = {
            "/trace": self._set_trace,
            "/faults": self._set_faults,
            "/reload": self._reload,
            "/stop": self._stop,
        }

    async def handle(self, request: Request) -> Response:
        """Answer one request."""
        is_look = request.method in ("GET", "HEAD")
        table = self._looks if is_look else self._acts
        if request.path not in table or request.method not in ("GET", "HEAD", "POST"):
            return self._no_such(request)
        try:
            principal = "" if request.path in self._free else await self._admit(request, _act_of(request))
            if isinstance(principal, Response):
                return principal
            if is_look:
                return self._looks[request.path](request)
            return await self._do(request, principal)
        except InputError as error:
            return plain(400, str(error))
        except MachineError as error:
            return plain(503, str(error))

    def _no_such(self, request: Request) -> Response:
        allowed = [method for method, table in (("GET", self._looks), ("POST", self._acts)) if request.path in table]
        if not allowed:
            return plain(404, f"there is no {request.path}")
        refusal = plain(405, f"{request.path} wants {' or '.join(allowed)}")
        return msgspec.structs.replace(refusal, headers=(("Allow", ", ".join(allowed)),))

    # --- principals ------------------------------------------------------------------------------------------------

    async def _admit(self, request: Request, act: str) -> str | Response:
        """Its principal, or the refusal."""
        credential = credential_of(request)
        admitted = self._judge(credential, act)
        if isinstance(admitted, Denied):
            return await self._refused(request, act, 403 if credential else 401, admitted)
        if not credential and (foreign := why_foreign(request)):
            return await self._refused(request, act, 403, Denied(foreign))
        if request.method == "POST" and not _is_json(request):
            return plain(415, "send JSON, with Content-Type: application/json")
        return admitted.principal

    async def _refused(self, request: Request, act: str, status: int, denied: Denied) -> Response:
        """Written down once for each host, principal and act, so that nobody can fill the disk."""
        key = (host_of(request.peer), denied.principal, act)
        if key not in self._refusals:
            self._refusals[key] = None
            if len(self._refusals) > REFUSALS_MAX:
                self._refusals.popitem(last=False)
            await self._write_down(denied.principal, act, "refused", request.peer, denied.reason)
        response = plain(status, denied.reason)
        if status == 401:
            return msgspec.structs.replace(response, headers=(("WWW-Authenticate", 'Bearer realm="isotone"'),))
        return response

    async def _do(self, request: Request, principal: str) -> Response:
        """An act, written down before it is done and with what came of it: what cannot be recorded is not done."""
        act, asked = request.path[1:], request.body.decode("utf-8", "replace")[:DETAIL_MAX]
        await self._write_down(principal, act, "begun", request.peer, asked)
        try:
            detail, response = await self._acts[request.path](request, principal)
        except (InputError, MachineError) as error:
            await self._write_down(principal, act, "failed", request.peer, str(error))
            raise
        outcome = "done" if response.status < 400 else "refused"
        await self._write_down(principal, act, outcome, request.peer, detail)
        return response

    async def _write_down(self, principal: str, act: str, outcome: str, peer: str, detail: str) -> None:
        """Off the loop: it waits for the disk."""
        await asyncio.to_thread(self._audit.record, principal, act, outcome, peer, detail=detail[:DETAIL_MAX])

    # --- looking ---------------------------------------------------------------------------------------------------

    def _health(self, request: Request) -> Response:
        del request
        return json_of(200, {"healthy": True, "daemon": str(self._node.stack.me)})

    def _ready(self, request: Request) -> Response:
        del request
        readiness = readiness_of(self._node)
        return json_of(200 if readiness.ready else 503, readiness)

    def _metrics_text(self, request: Request) -> Response:
        del request
        return Response(200, self._metrics.text(), CONTENT_TYPE)

    def _groups(self, request: Request) -> Response:
        return json_of(200, groups_of(self._node.stack, request.query.get("name", "*"), _limit(request)))

    def _faults(self, request: Request) -> Response:
        del request
        rules = self._node.fault_rules()
        return json_of(200, {"enabled": rules is not None, "rules": rules or []})

    # --- acting ----------------------------------------------------------------------------------------------------

    async def _set_trace(self, request: Request, principal: str) -> tuple[str, Response]:
        del principal
        asked = decoded(request, TraceAsked)
        self._node.set_trace_level(asked.level)
        return f"level {asked.level}", json_of(200, self._node.trace_status())

    async def _set_faults(self, request: Request, principal: str) -> tuple[str, Response]:
        del principal
        asked = decoded(request, FaultsAsked)
        if self._node.fault_rules() is None:
            return "faults are not enabled", plain(403, NO_FAULTS)
        self._node.set_fault_rules(asked.rules)
        return msgspec.json.encode(asked.rules).decode(), self._faults(request)

    async def _reload(self, request: Request, principal: str) -> tuple[str, Response]:
        del request, principal
        changes = await self._node.reload()
        return "; ".join(changes) or "nothing changed", json_of(200, {"changes": changes})

    async def _stop(self, request: Request, principal: str) -> tuple[str, Response]:
        asked = decoded(request, StopAsked) if request.body else StopAsked()
        self._node.stop(f"{asked.reason} ({principal})")
        return asked.reason, json_of(202, {"stopping": True, "reason": asked.reason})


def json_of(status: int, value: object) -> Response:
    """An answer in JSON."""
    return Response(status, msgspec.json.encode(value, enc_hook=str))


def decoded(request: Request, shape: type[_T]) -> _T:
    """The body as this struct; raises `InputError`."""
    try:
        return msgspec.json.decode(request.body, type=shape)
    except msgspec.DecodeError as error:  # ValidationError is one
        raise InputError(f"the body of {request.path}: {error}") from error


def _limit(request: Request) -> int:
    text = request.query.get("limit", str(LISTED_MAX))
    if not (text.isascii() and text.isdigit()) or len(text) > 9:
        raise InputError(f"limit is a number, not {text!r}")
    return int(text)


def _act_of(request: Request) -> str:
    """What is asked for, as the access list and the audit log name it."""
    return "look" if request.method in ("GET", "HEAD") else request.path[1:]


def _is_json(request: Request) -> bool:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json"
