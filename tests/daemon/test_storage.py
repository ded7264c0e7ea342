"""The state directory: an identity for all time, incarnations that only grow, cells that a crash cannot tear."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from threading import Event

import pytest

from isotone.core.contract import Append, Put, Write
from isotone.core.errors import InputError, MachineError
from isotone.daemon import storage
from isotone.daemon.storage import Disk, StateDirectory


def write(state: StateDirectory, *writes: Write) -> list[str]:
    disk, done, said = Disk(state), Event(), []

    def answer(reason: str) -> None:
        said.append(reason)
        done.set()

    disk.submit(writes, answer)
    assert done.wait(60)
    disk.close()
    return said


def test_the_identity_stays_and_the_incarnation_grows(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path / "d1")
    first, one = state.open("d1")
    state.close()
    second, two = state.open("d1")
    state.close()
    assert first == second and len(first.bytes) == 16
    assert (one, two) == (1, 2)


def test_the_directory_of_another_daemon_is_refused(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path)
    state.open("d1")
    state.close()
    with pytest.raises(InputError, match="holds the state of daemon 'd1', not of 'd2'"):
        StateDirectory(tmp_path).open("d2")


def test_a_second_daemon_is_refused_and_told_who_is_there(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path)
    state.open("d1")
    with pytest.raises(MachineError, match=f"in use by another process .{os.getpid()}"):
        StateDirectory(tmp_path).open("d1")
    state.close()
    assert StateDirectory(tmp_path).open("d1")[1] == 2


def test_cells_come_back(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path)
    state.open("d1")
    assert write(state, Put("floors", b"\x00\xff" * 100), Put("a/b c", b"")) == [""]
    assert write(state, Put("floors", b"new")) == [""]
    assert state.storage().cells == {"floors": b"new", "a/b c": b""}
    state.close()


def test_a_half_written_cell_is_never_seen(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path)
    state.open("d1")
    write(state, Put("floors", b"old"))
    path = state.cell_path("floors")
    path.with_name(f"{path.name}{storage.TEMPORARY}").write_bytes(b"torn")
    assert state.storage().cells == {"floors": b"old"}
    state.close()


def test_damage_is_told_and_not_skipped(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path)
    state.open("d1")
    write(state, Put("floors", b"precious"))
    path = state.cell_path("floors")
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(MachineError, match="floors is damaged"):
        state.storage()
    (tmp_path / storage.INCARNATION).write_text("soup")
    state.close()
    with pytest.raises(InputError, match="is not a number"):
        StateDirectory(tmp_path).open("d1")


def test_a_disk_that_refuses_says_so_and_goes_on(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path)
    state.open("d1")
    cells = tmp_path / storage.CELLS
    cells.rename(tmp_path / "away")
    (said,) = write(state, Put("floors", b"x"))
    assert "No such file" in said
    (tmp_path / "away").rename(cells)
    assert write(state, Put("floors", b"x")) == [""]
    state.close()


def test_many_under_way_are_answered_in_order_with_few_syncs(tmp_path: Path) -> None:
    state, order, done = StateDirectory(tmp_path), [], Event()
    state.open("d1")
    disk = Disk(state)
    for number in range(100):
        disk.submit([Put("floors", b"%d" % number)], lambda reason, number=number: order.append(number))
    disk.submit([], lambda reason: done.set())
    disk.close()
    assert done.is_set() and order == list(range(100))
    assert state.storage().cells == {"floors": b"99"}
    assert disk.syncs < 100
    state.close()


def test_logs_are_not_the_daemons(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path)
    state.open("d1")
    disk = Disk(state)
    with pytest.raises(AssertionError, match="cells only"):
        disk.submit([Append("log", b"x")], lambda reason: None)
    disk.close()
    state.close()


def test_a_kill_at_any_moment_leaves_the_old_value_or_a_newer_one(tmp_path: Path) -> None:
    """A child writes growing numbers and says which are durable; whenever it is killed, no less than that is there."""
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from threading import Event\n"
        "from isotone.core.contract import Put\n"
        "from isotone.daemon.storage import Disk, StateDirectory\n"
        "state = StateDirectory(Path(sys.argv[1])); state.open('d1'); disk = Disk(state)\n"
        "for number in range(100000):\n"
        "    done = Event(); disk.submit([Put('n', b'%d' % number)], lambda reason: done.set()); done.wait()\n"
        "    print(number, flush=True)\n"
    )
    for told_max in (1, 7, 40):
        directory = tmp_path / str(told_max)
        child = subprocess.Popen([sys.executable, "-c", program, str(directory)], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        for _ in range(told_max):
            told = int(child.stdout.readline())
        child.kill()
        child.wait(60)
        child.stdout.close()
        state = StateDirectory(directory)
        assert state.open("d1")[1] == 2
        assert int(state.storage().cells["n"]) >= told
        state.close()
