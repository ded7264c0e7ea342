"""``isotone replica backup`` and ``restore``: copies of the order up to a position, and logs made from one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from isotone.cli.output import json_option, print_json, print_text
from isotone.core.errors import MachineError

if TYPE_CHECKING:
    from isotone.daemon.settings import DaemonSettings


@click.command("backup")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("target", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--name", default="", help="Which server of FILE; optional if the file names only one.")
@click.option("--position", type=click.IntRange(0), help="Up to this position (default: all that is green).")
@json_option
def backup_command(*, file: Path, target: Path, name: str, position: int | None, as_json: bool) -> int:
    """Copy the order that a server of FILE has to the new file TARGET. The server may run meanwhile.

    \b
    Examples:
      isotone replica backup isotone.toml monday.backup --name a
      isotone replica backup isotone.toml before.backup --name a --position 1200
    """
    from isotone.daemon.settings import load
    from isotone.daemon.settings.replication import chosen_server, log_directory
    from isotone.host.backup import back_up

    settings = load(file)
    server = chosen_server(settings, name)
    backup = back_up(log_directory(settings, server), server.name, target, position)
    size = target.stat().st_size
    if as_json:
        print_json({"file": str(target), "server": backup.server, "position": backup.position, "bytes": size})
    else:
        print_text(f"{target}: the order up to position {backup.position}, as {backup.server} has it, {size} bytes")
    return 0


@click.command("restore")
@click.argument("backup", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--name", "names", multiple=True, help="Only these servers of FILE (default: all).")
@click.option("--position", type=click.IntRange(0), help="Up to this position (default: all of the copy).")
@click.option("--fence", type=click.IntRange(1), help="As the restore of the first server said; the same at all.")
@click.option("--although-running", is_flag=True, help="Also while a server of FILE runs: it is fenced by that.")
@json_option
def restore_command(
    *,
    backup: Path,
    file: Path,
    names: tuple[str, ...],
    position: int | None,
    fence: int | None,
    although_running: bool,
    as_json: bool,
) -> int:
    """Begin a new log from the copy BACKUP, for the servers of FILE, in directories that are still empty.

    This is for the whole log, while none of its servers runs: all must be restored from the same copy, to the same
    position, with the same fence. A server that was not is fenced as soon as it meets one that was, though it be one
    of a quorum that ordered: it orders nothing more and says why. To replace one server, remove it and add one under
    a new name instead.

    \b
    Examples:
      isotone replica restore monday.backup isotone.toml --name a --position 1200
      isotone replica restore monday.backup isotone.toml --name b --position 1200 --fence 1731680000
      isotone replica restore monday.backup isotone.toml

    What the log ordered after that position is lost; `isotone replica log dump` shows it while the old files are there.

    Exit codes: 0 done, 2 wrong usage, 3 a server of FILE runs. With --fence those that run may be restored already.
    """
    from isotone.daemon.settings import load
    from isotone.daemon.settings.replication import chosen_server, founders, log_directory, quorum_of
    from isotone.host.backup import new_fence, read_backup, restore
    from isotone.host.running import kept_still

    settings = load(file)
    copy = read_backup(backup)
    chosen = [chosen_server(settings, name) for name in names or founders(settings)]
    stores = {server.name: log_directory(settings, server) for server in chosen}
    others = {each.name: log_directory(settings, each) for each in settings.replica.server}
    servers, rule = founders(settings), quorum_of(settings)
    with kept_still(others) as used:
        if fence is None and not although_running:
            _check_stopped(settings, used)
        fence = fence or new_fence(copy)
        reached = restore(copy, stores, servers=servers, rule=rule, fence=fence, position=position)
    missing = [name for name in servers if name not in stores]
    if as_json:
        print_json({"servers": list(stores), "position": reached, "fence": fence, "missing": missing})
        return 0
    print_text(f"{', '.join(stores)}: a new log that goes on behind position {reached}, fence {fence}")
    if missing:
        print_text(f"restore {', '.join(missing)} from the same copy with --position {reached} --fence {fence}")
        print_text("until then they are fenced as soon as they meet this log: what only they have ordered is lost")
    return 0


def _check_stopped(settings: DaemonSettings, used: dict[str, str]) -> None:
    """Whoever runs may be one of a quorum that orders, and a new fence would stop it."""
    from isotone.daemon.settings.replication import server_addresses
    from isotone.host.running import answering

    runs = answering(server_addresses(settings)) | used
    if runs:
        raise MachineError(
            f"{'; '.join(runs.values())}: a restore is for the whole log while none of its servers runs, and fences "
            "all that were not restored. To replace one server: isotone replica remove, isotone replica add; to begin "
            "anew from the copy, stop all and ask again; if it is so meant: --although-running"
        )
