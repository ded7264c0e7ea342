"""The settings file of several data centres: their processes and keys, the operators, how a disaster is declared.

The same file stands at every process and at every operator. docs/guide/data-centres.md has an example.

Implements: [HAB 2], the processes and their groups.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from isotone.core.addresses import split_address
from isotone.core.errors import InputError, LocalProtocolError, MachineError
from isotone.core.names import LOG_GROUP_PREFIX, check_client_name, check_log_name
from isotone.daemon.security.keys import Roster, parse_authority, parse_public
from isotone.hab.settings import HabSettings, Mode

ANSWER_US = 1_000_000
ALIVE_US = 500_000
HISTORY_MAX = 32_768
STATE_EVERY = 1_024
SECOND_US, MINUTE_US = 1_000_000, 60_000_000
SILENCE_MIN_S = 2.0

_Text = Annotated[str, msgspec.Meta(min_length=1)]


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of the file: a key that nobody knows is refused."""


class CentreProcess(_Table, frozen=True):
    """One process of a data centre."""

    name: _Text
    daemon: _Text
    """HOST:PORT, where the other processes of its centre reach its daemon."""
    wide: _Text
    """HOST:PORT, where other centres and operators reach it."""
    key: _Text
    """Its public key, ``x25519:…``."""


class DataCentre(_Table, frozen=True):
    """One data centre."""

    name: _Text
    process: tuple[CentreProcess, ...]


class WitnessProcess(_Table, frozen=True):
    """A process at a third place, for two data centres."""

    name: _Text
    wide: _Text
    """HOST:PORT, where the data centres reach it."""
    key: _Text
    """Its public key, ``x25519:…``."""


class OperatorKey(_Table, frozen=True):
    """Who may act on data centres."""

    name: _Text
    key: _Text
    """The public key, ``ed25519:…``."""


class CentresFile(_Table, frozen=True):
    """The whole file. The first centre is the first primary."""

    log: _Text
    centre: tuple[DataCentre, ...]
    operator: tuple[OperatorKey, ...] = ()
    witness: WitnessProcess | None = None
    mode: Literal["waiting", "at-once"] = "waiting"
    confirmations: Annotated[int, msgspec.Meta(ge=1, le=8)] = 2
    """So many operators must declare a centre lost."""
    waiting_minutes: Annotated[float, msgspec.Meta(ge=0, le=1_440)] = 0.0
    """Or one of them, so long before it counts; 0: no time stands for a second operator."""
    declare_unsafely_after_seconds: Annotated[float, msgspec.Meta(ge=0, le=86_400)] = 0.0
    """After so long a silence a program declares a centre lost, though silence is no disaster; 0: only people do."""

    @property
    def group(self) -> str:
        """Where the processes of a centre meet, each centre among its own daemons."""
        return f"{LOG_GROUP_PREFIX}{self.log}"

    @property
    def processes(self) -> dict[str, CentreProcess]:
        """All of them, by name."""
        return {process.name: process for centre in self.centre for process in centre.process}

    def centre_of(self, process: str) -> DataCentre:
        """Where a process stands; `InputError` if there is none of this name."""
        for centre in self.centre:
            if any(each.name == process for each in centre.process):
                return centre
        raise InputError(f"no process of the data centres is called {process!r}: {', '.join(self.processes)}")

    def roster(self) -> Roster:
        """Whose key is which."""
        keys = {name: parse_public(each.key) for name, each in self.processes.items()}
        if self.witness is not None:
            keys[self.witness.name] = parse_public(self.witness.key)
        return Roster(f"centres/{self.log}", keys)

    def operators(self) -> dict[str, bytes]:
        """The public keys of the operators, by name."""
        return {each.name: parse_authority(each.key) for each in self.operator}

    def settings(self) -> HabSettings:
        """As the automaton takes them."""
        return HabSettings(
            centres={centre.name: tuple(each.name for each in centre.process) for centre in self.centre},
            witness=self.witness.name if self.witness is not None else "",
            mode=Mode(self.mode),
            answer_us=ANSWER_US,
            alive_us=ALIVE_US,
            snapshots=True,
            history_max=HISTORY_MAX,
            state_every=STATE_EVERY,
            declare_unsafely_after_us=int(self.declare_unsafely_after_seconds * SECOND_US),
            confirmations=self.confirmations,
            confirm_after_us=int(self.waiting_minutes * MINUTE_US),
            wish_us=int((self.waiting_minutes + 60) * MINUTE_US),
        )


def read_centres(path: Path | str) -> CentresFile:
    """The settings in this file; an `InputError` says what is wrong with it, and where."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise MachineError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        return _checked(msgspec.convert(tomllib.loads(data.decode()), CentresFile))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError, LocalProtocolError) as error:
        raise InputError(f"{path}: {error}") from None


def _checked(file: CentresFile) -> CentresFile:
    check_log_name(file.log)
    processes = [process for centre in file.centre for process in centre.process]
    for process in processes:
        check_client_name(process.name)
        split_address(process.daemon)
        split_address(process.wide)
    third = [file.witness] if file.witness is not None else []
    for each in third:
        check_client_name(each.name)
        split_address(each.wide)
    for what, names in (
        ("data centres", [centre.name for centre in file.centre]),
        ("operators", [each.name for each in file.operator]),
        ("addresses", [*(each.wide for each in processes), *(each.wide for each in third)]),
        (
            "keys",
            [*(each.key for each in processes), *(each.key for each in third), *(each.key for each in file.operator)],
        ),
    ):
        if len(set(names)) != len(names):
            raise InputError(f"two {what} are the same: {', '.join(sorted(names))}")
    if file.confirmations > max(1, len(file.operator)) and not file.waiting_minutes:
        raise InputError(
            f"confirmations = {file.confirmations}, and there are {len(file.operator)} operators: name more, or set "
            "waiting_minutes, or confirmations = 1"
        )
    if 0 < file.declare_unsafely_after_seconds < SILENCE_MIN_S:
        raise InputError(
            f"declare_unsafely_after_seconds = {file.declare_unsafely_after_seconds:g}: with less than "
            f"{SILENCE_MIN_S:g} a busy data centre counts as lost; leave it out, and only people declare"
        )
    file.roster()
    file.operators()
    file.settings().check()
    return file
