"""Every command of operation on a running cluster: three real daemons in two sites, started by ``isotone up``."""

from __future__ import annotations

import asyncio
import io
import json
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest
from rich.console import Console

import isotone as isotone_library
from isotone.cli import group as commands_of_group
from isotone.cli.admin_client import AdminClient
from isotone.cli.group_work import described
from isotone.cli.local_cluster import LocalCluster, places_of
from isotone.cli.status_tables import status_view
from isotone.daemon.admin.metric_table import METRICS
from tests.cli.running import WITHIN_S, Running, answers, first_object, isotone, process, told, wait_until
from tests.ports import free_ports

# --- looking -------------------------------------------------------------------------------------------------------


def test_status_tells_view_sites_links_peers_and_where_timeouts_come_from(cluster: Running) -> None:
    status = told("status", *cluster.at("d1"))
    stack = status["stack"]
    assert (status["name"], status["ready"]) == ("d1", True)
    assert stack["view"]["members"] == ["d1", "d2", "d3"]
    assert [(site["name"], site["daemons"]) for site in stack["sites"]] == [("s1", ["d1", "d2"]), ("s2", ["d3"])]
    assert [link["protocol"] for link in stack["links"]] == ["ring", "hop"]
    assert all(peer["round_trip_us"] > 0 for peer in stack["peers"])
    assert "round trip" in stack["peers"][0]["timeouts"]["silence"]["text"]


def test_status_of_several_is_a_line_each(cluster: Running) -> None:
    everywhere = [part for name in cluster.daemons for part in cluster.at(name)]
    assert [each["status"]["name"] for each in told("status", *everywhere)["daemons"]] == ["d1", "d2", "d3"]
    shown = isotone("status", *everywhere).stdout.splitlines()
    sites = [("d1", "s1"), ("d2", "s1"), ("d3", "s2")]
    assert [line.split()[:6] for line in shown[1:4]] == [[d, s, "ready", "d1", "d2", "d3"] for d, s in sites]
    assert len(shown) <= 24 and all(len(line.rstrip()) <= 80 for line in shown), "it fits a terminal"


def test_status_for_people(cluster: Running) -> None:
    shown = isotone("status", *cluster.at("d1"))
    assert shown.exit_code == 0
    for part in ("d1#", "ready", "works: d1, d2, d3", "lag: "):
        assert part in shown.stdout
    assert "timeouts" not in shown.stdout
    everywhere = [part for name in cluster.daemons for part in cluster.at(name)]
    with_links = isotone("status", "--links", *everywhere).stdout
    for part in ("sites", "links", "timeouts", "where it comes from"):
        assert part in with_links
    assert with_links.count("again: share of packets sent more than once") == 1, "columns are explained once, below all"


def test_status_of_one_fits_a_terminal_however_much_there_is(cluster: Running) -> None:
    """Many groups and clients with the longest names, faults, and messages that wait."""
    status = told("status", *cluster.at("d1"))
    status["stack"]["lines"] |= {"agreed_since": status["at"] - 3_000_000, "slowest": ["s2"]}
    status["faults"] = [{}, {}]
    group = {"view": "(19456!d3#1, 19457!d1#1, 120!d1#3)", "members_total": 1000, "local": 9, "in_transition": True}
    status["groups"] = [{**group, "name": f"{n:02}{'g' * 62}"} for n in range(200)]
    client = {"kind": "session", "principal": "p" * 40, "groups": 9, "held_bytes": 5 << 20, "blocks": True}
    status["clients"] = [{**client, "name": f"{n:02}{'c' * 62}", "connected": True} for n in range(200)]
    status["totals"] = {"groups": 5_000, "clients": 9_999}
    console = Console(width=80, height=24, file=io.StringIO())
    console.print(status_view(status))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert len(lines) < 24 and max(map(len, lines)) <= 80
    shown = " ".join(" ".join(lines).split())
    for part in (
        "groups: 6 of 5000",
        "clients: 6 of 9999",
        "messages have waited 3 s for site s2",
        "2 faults are",
        "in transition",
    ):
        assert part in shown
    assert shown.count("senders wait for it") == 6


def test_status_can_be_watched(cluster: Running, tmp_path: Path) -> None:
    arguments = ["status", "--watch", "--every", "0.1", "--json", *cluster.at("d2")]
    with process(*arguments, log=tmp_path / "log") as watching:
        assert watching.stdout is not None
        seen = [json.loads(watching.stdout.readline()) for _ in range(3)]
        watching.send_signal(signal.SIGINT)
        assert watching.wait(30) == 130
    assert [each["name"] for each in seen] == ["d2"] * 3
    assert seen[0]["at"] < seen[1]["at"] < seen[2]["at"]


def test_status_is_live_on_a_terminal(cluster: Running) -> None:
    process_id, terminal = pty.fork()
    if process_id == 0:
        command = [sys.executable, "-m", "isotone.cli", "status", "--watch", "--every", "0.1", *cluster.at("d1")]
        os.execv(sys.executable, command)
    shown = b""
    while shown.count(b"works: d1, d2, d3") < 3:
        assert select.select([terminal], [], [], 30)[0], shown
        shown += os.read(terminal, 65_536)
    os.write(terminal, b"\x03")
    deadline = time.monotonic() + 60
    with suppress(OSError):  # the end of the terminal
        while select.select([terminal], [], [], 30)[0]:
            shown += os.read(terminal, 65_536)
            assert time.monotonic() < deadline, "an interrupt does not end it"
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(process_id, 0)[1]) == 130
    assert b"Traceback" not in shown


def test_a_daemon_that_does_not_answer_is_told_with_3(cluster: Running) -> None:
    nobody = isotone("status", "--address", "127.0.0.1:1")
    assert nobody.exit_code == 3 and "127.0.0.1:1" in nobody.stderr
    some = told("status", *cluster.at("d1"), "--address", "127.0.0.1:1", code=1)
    assert [each["status"] is None for each in some["daemons"]] == [False, True]


def test_a_client_command_without_a_daemon_says_so_with_3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands_of_group, "CONNECT_WITHIN_S", 1.0)
    nobody = f"unix:{tmp_path / 'nobody'}"
    result = isotone("group", "send", "room", "hello", "--address", nobody, "--timeout", "60")
    assert result.exit_code == 3
    assert "could not connect (unreachable)" in result.stderr and "is a daemon running there?" in result.stderr
    assert "No such file or directory" in result.stderr


def test_a_wrong_name_of_a_group_needs_no_daemon_to_be_told(tmp_path: Path) -> None:
    for command in ("send", "recv", "chat", "ping", "flood"):
        result = isotone("group", command, "two words", "--address", f"unix:{tmp_path / 'nobody'}")
        assert result.exit_code == 2
        assert "' ' is not allowed" in result.stderr


def test_a_port_of_clients_is_not_one_of_administration(cluster: Running) -> None:
    result = isotone("status", "--address", cluster.clients)
    assert result.exit_code == 3
    assert "no administration answers" in result.stderr and "looks like a port for clients" in result.stderr
    assert result.stderr.isascii() and result.stderr.strip().isprintable()
    wrong = isotone("group", "recv", "room", "--timeout", "1", "--address", cluster.admin("d1"))
    assert wrong.exit_code == 3
    assert "HTTP answers, as at a daemon's administration port" in wrong.stderr and cluster.admin("d1") in wrong.stderr


def test_explanations(cluster: Running) -> None:
    assert told("explain", "view", *cluster.at("d2"))["is_working"] is True
    assert told("explain", "exclusion", "d3", *cluster.at("d2"))["ruling"] == "member"
    assert told("explain", "exclusion", "d9", *cluster.at("d2"), code=1)["ruling"] == "unknown"
    sent = told("group", "send", "why", "x", "--confirm", "--address", cluster.clients)
    assert told("explain", "message", sent["stamp"], *cluster.at("d1"))["place"] == "delivered"
    question = ("explain", "message", sent["id"], *cluster.at("d3"))
    wait_until(lambda: isotone(*question).exit_code == 0, "d3 may have forgotten it; that of its sender knows")
    by_id = told(*question)
    assert [each["answer"]["place"] for each in by_id["daemons"] if each["daemon"] == "d1"] == ["delivered"]
    assert by_id["not_asked"] == by_id["causes"] == []
    assert isotone("explain", "message", "nonsense", *cluster.at("d1")).exit_code == 2
    assert "works" in isotone("explain", "view", *cluster.at("d1")).stdout


def test_metrics_and_probes_over_http(cluster: Running) -> None:
    def get(path: str) -> tuple[int, str]:
        with urllib.request.urlopen(f"http://{cluster.admin('d1')}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()

    status, text = get("/metrics")
    assert status == 200
    missing = [metric.name for metric in METRICS if f"\n{metric.name}" not in text]
    assert not missing
    assert get("/health")[0] == get("/ready")[0] == 200


# --- groups --------------------------------------------------------------------------------------------------------


def test_send_and_recv(cluster: Running, tmp_path: Path) -> None:
    arguments = ["group", "recv", "talk", "--count", "3", "--timeout", "60", "--json"]
    with process(*arguments, "--address", cluster.daemons["d3"]["address"], log=tmp_path / "log") as listening:
        wait_until(lambda: _members_of(cluster, "talk") == 1, "the listener is a member")
        sent = told("group", "send", "talk", "one", "two", "--address", cluster.clients)
        assert (sent["sent"], sent["service"]) == (2, "agreed")
        piped = isotone("group", "send", "talk", "--service", "safe", "--address", cluster.clients, stdin="three\n")
        assert piped.exit_code == 0
        output, _ = listening.communicate(timeout=60)
        assert listening.returncode == 0, (tmp_path / "log").read_text()
    events = [json.loads(line) for line in output.splitlines()]
    assert events[0]["event"] == "view" and len(events[0]["members"]) == 1
    texts = [each["text"] for each in events if each["event"] == "message"]
    assert sorted(texts) == ["one", "three", "two"]
    # Each command is a client of its own: what one has handed over does not stand before what another sends later.
    assert texts.index("one") < texts.index("two")
    assert (tmp_path / "log").read_text() == ""


def _members_of(cluster: Running, group: str) -> int:
    found = cluster.client("d1").get("/groups", name=group)["groups"]
    return int(found[0]["members_total"]) if found else 0


def test_what_was_sent_is_told_in_a_sentence_with_its_id(cluster: Running) -> None:
    where = ("--address", cluster.clients, "--name", "teller")
    one = isotone("group", "send", "told", "x", "--confirm", *where).stdout
    assert one.startswith("1 message to told: every member has it; the id is #teller#d1#")
    two = isotone("group", "send", "told", "x", "y", *where).stdout
    assert two.startswith("2 messages to told: the daemon took them; the id of the last is #teller#d1#")


def test_recv_says_when_the_time_is_over(cluster: Running) -> None:
    result = isotone("group", "recv", "quiet", "--count", "1", "--timeout", "0.2", "--address", cluster.clients)
    assert result.exit_code == 1


@pytest.mark.parametrize("service", ["agreed", "safe", "fifo"])
def test_ping(cluster: Running, service: str) -> None:
    report = told(
        "group", "ping", "echo", "--count", "3", "--every", "0", "--service", service, "--address", cluster.clients
    )
    assert (report["sent"], report["received"]) == (3, 3)
    assert 0 < report["minimum_ms"] <= report["median_ms"] <= report["maximum_ms"]


def test_flood_hears_all_that_it_sent(cluster: Running) -> None:
    report = told("group", "flood", "much", "--seconds", "0.3", "--size", "500", "--address", cluster.clients)
    assert report["received"] == report["sent"] > 0


def test_a_cluster_that_runs_is_judged_as_far_as_it_is_recorded(cluster: Running) -> None:
    sent = told("group", "send", "judged", "hello", "--confirm", "--address", cluster.clients)
    assert sent["id"].startswith("#") and sent["stamp"]
    traces = cluster.description["trace"]
    wait_until(lambda: isotone("check", traces).exit_code == 0, "enough is recorded to be judged")
    judged = isotone("check", traces, "--json")
    assert json.loads(judged.stdout)["properties"]["EVS-2.5"]["holds"] == 1
    assert "is still written: judged" in judged.stderr


def test_chat_sends_what_is_typed_and_shows_it(cluster: Running) -> None:
    result = isotone("group", "chat", "room", "--name", "ada", "--address", cluster.clients, stdin="hello\nworld\n")
    assert result.exit_code == 0, result.output
    said = [line for line in result.stdout.splitlines() if "#ada#d1" in line and "view" not in line]
    assert said == ["room #ada#d1: hello", "room #ada#d1: world"]


def test_chat_for_programs_is_an_object_a_line(cluster: Running) -> None:
    arguments = ("group", "chat", "room", "--name", "eve", "--address", cluster.clients, "--json")
    lines = [json.loads(line) for line in isotone(*arguments, stdin="hello\n").stdout.splitlines()]
    assert [each["event"] for each in lines] == ["view", "message", "selfleave"]
    assert lines[0]["members"] == lines[0]["transitional"] and lines[1]["text"] == "hello"


def test_bytes_that_are_no_text_are_whole_for_programs() -> None:
    async def main() -> dict[str, object]:
        async with isotone_library.node() as daemon, isotone_library.connect(daemon.address) as me:
            room = await me.join("room")
            await room.send(b"\xff\x00")
            while not isinstance(event := await room.receive(timeout=WITHIN_S), isotone_library.Message):
                pass
            return described("room", event)

    assert asyncio.run(main())["base64"] == "/wA="


def test_live_verdicts_without_a_terminal_prints_each_time_and_ends_with_its_reader(cluster: Running) -> None:
    command = [sys.executable, "-m", "isotone.cli", "status", "--watch", "--every", "0.1", *cluster.at("d1")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None and watching.stderr is not None
        seen = 0
        while seen < 2:
            seen += "daemon view" in watching.stdout.readline()
        watching.stdout.close()
        assert watching.wait(WITHIN_S) == 0
        assert watching.stderr.read() == ""


def test_chat_whose_reader_has_gone_ends_quietly(cluster: Running) -> None:
    """As in ``isotone group chat room | head -1``: also while it waits for what is typed."""
    command = [sys.executable, "-m", "isotone.cli", "group", "chat", "pipe", "--name", "cut", "--address"]
    with subprocess.Popen(
        [*command, cluster.clients], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as chatting:
        assert chatting.stdout is not None and chatting.stderr is not None
        assert b"view" in chatting.stdout.readline()
        chatting.stdout.close()
        assert isotone("group", "send", "pipe", "hello", "--address", cluster.clients).exit_code == 0
        assert chatting.wait(WITHIN_S) == 0
        assert chatting.stderr.read() == b""


def test_names_that_are_refused_end_with_2(cluster: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands_of_group, "CONNECT_WITHIN_S", 0.5)
    wrong = isotone("group", "send", "room", "x", "--name", "far too long a name", "--address", cluster.clients)
    assert wrong.exit_code == 2
    assert isotone("group", "send", "bad name", "x", "--address", cluster.clients).exit_code == 2
    assert isotone("group", "send", "room", "x", "--address", "127.0.0.1:1", "--timeout", "60").exit_code == 3


# --- acting --------------------------------------------------------------------------------------------------------


def test_the_trace_goes_off_and_on(cluster: Running) -> None:
    assert told("trace", "status", *cluster.at("d2"))["level"] == "buffered"
    assert told("trace", "off", *cluster.at("d2"))["level"] == "off"
    assert told("trace", "on", *cluster.at("d2"))["level"] == "buffered"
    both = told("trace", "status", *cluster.at("d1"), *cluster.at("d2"))
    assert [each["trace"]["lost"] for each in both["daemons"]] == [0, 0]
    assert "buffered" in isotone("trace", "status", *cluster.at("d1")).stdout


def test_a_drill_cuts_a_daemon_off_and_heals(cluster: Running) -> None:
    """Faults by the administration port; meanwhile `explain` says who is out, and why."""
    rules = [{"daemon": name, "cut": True} for name in ("d1", "d2")]
    assert len(cluster.client("d3").post("/faults", {"rules": rules})["rules"]) == 2
    wait_until(
        lambda: cluster.members("d1") == ["d1", "d2"] and cluster.members("d3") == ["d3"], "the cluster is split"
    )
    answer = told("explain", "exclusion", "d3", *cluster.at("d1"), code=1)
    assert answer["ruling"] in ("suspected", "unproven", "unreached", "penalty")
    assert "d3" in answer["text"]
    status = told("status", *cluster.at("d3"))
    assert status["ready"] and len(status["faults"]) == 2
    cluster.client("d3").post("/faults", {"rules": []})
    wait_until(lambda: all(cluster.members(name) == ["d1", "d2", "d3"] for name in cluster.daemons), "all are together")


def test_settings_are_read_again_on_sighup(cluster: Running) -> None:
    path = Path(cluster.description["settings"])
    text = path.read_text()
    assert 'level = "buffered"' in text
    try:
        path.write_text(text.replace('level = "buffered"', 'level = "off"'))
        os.kill(cluster.daemons["d3"]["process"], signal.SIGHUP)
        wait_until(lambda: cluster.client("d3").get("/trace")["level"] == "off", "the new level is taken")
        path.write_text("[nonsense]\n")
        refused = isotone("status", *cluster.at("d3"))
        assert refused.exit_code == 0
        with pytest.raises(Exception, match="nonsense"):
            cluster.client("d3").post("/reload", {})
        assert cluster.client("d3").get("/trace")["level"] == "off"
    finally:
        path.write_text(text)
    changes = cluster.client("d3").post("/reload", {})["changes"]
    assert any("trace" in change for change in changes)
    assert cluster.client("d3").get("/trace")["level"] == "buffered"


def test_acts_are_in_the_audit_log(cluster: Running) -> None:
    cluster.client("d2").post("/trace", {"level": "buffered"})
    found = list((Path(cluster.description["directory"]) / "state").rglob("audit.jsonl"))
    lines = [json.loads(line) for path in found for line in path.read_text().splitlines()]
    assert any(line["act"] == "trace" and line["outcome"] == "done" for line in lines)


# --- one daemon ----------------------------------------------------------------------------------------------------


def test_a_daemon_is_not_ready_before_its_first_daemon_view(tmp_path: Path) -> None:
    from isotone.cli.local_cluster import places_of, settings_text

    places = places_of(1, 1, None)
    path = tmp_path / "isotone.toml"
    path.write_text(settings_text(places, tmp_path).replace("[cluster]\n", "[cluster]\nfirst_wait_ms = 600000\n"))
    with process("daemon", "run", str(path), "--dev", log=tmp_path / "log") as running:
        wait_until(lambda: running.poll() is not None or answers(places[0].admin), "the daemon answers")
        assert running.poll() is None, (tmp_path / "log").read_text()
        assert not AdminClient(places[0].admin).is_ready()
        status = told("status", "--address", places[0].admin, code=1)
        assert not status["ready"] and status["why_not_ready"]
        assert told("explain", "view", "--address", places[0].admin, code=1)["state"] == "SEG"
        running.send_signal(signal.SIGTERM)
        assert running.wait(30) == 0, (tmp_path / "log").read_text()


def test_a_daemon_for_development_needs_no_file(tmp_path: Path) -> None:
    log = tmp_path / "log"
    port, admin = free_ports(2)
    options = ["--port", str(port), "--admin-port", str(admin), "--directory", str(tmp_path / "dev")]
    with process("daemon", "--dev", *options, log=log) as running:
        address = f"127.0.0.1:{admin}"
        wait_until(lambda: running.poll() is not None or answers(address), "the daemon answers")
        wait_until(lambda: running.poll() is not None or AdminClient(address).is_ready(), "the daemon is ready")
        assert told("group", "ping", "x", "--count", "1", "--address", f"127.0.0.1:{port}")["received"] == 1
        assert AdminClient(address).post("/stop", {"reason": "the test is over"})["stopping"]
        assert running.wait(30) == 0, log.read_text()
    assert "OPEN" in log.read_text()


def test_up_names_a_port_that_is_taken_before_it_starts_anything(cluster: Running, tmp_path: Path) -> None:
    port = cluster.clients.rpartition(":")[2]
    result = isotone("up", "1", "--port", port, "--directory", str(tmp_path / "x"), "--within", "30")
    assert result.exit_code == 3
    assert f"daemon d1 cannot have port {port} of 127.0.0.1" in result.stderr
    assert "is another cluster up? --port 0 takes free ones" in result.stderr


def test_up_refuses_ports_that_do_not_exist() -> None:
    result = isotone("up", "3", "--port", "65509")
    assert result.exit_code == 2 and "begin at 65508 at most" in result.stderr
    assert [place.admin_port for place in places_of(3, 1, 65_508)] == [65_515, 65_525, 65_535]


def test_daemons_of_up_end_with_it(tmp_path: Path) -> None:
    arguments = ["up", "1", "--port", "0", "--directory", str(tmp_path / "up"), "--json"]
    with process(*arguments, log=tmp_path / "log") as running:
        daemon = first_object(running, tmp_path / "log")["daemons"][0]
        assert answers(daemon["admin"])
        running.kill()
        running.wait(30)
        wait_until(lambda: not answers(daemon["admin"]), "the daemon ended")


def test_two_clusters_of_up_are_two_runs(tmp_path: Path) -> None:
    """One after the other, with daemons of the same names that begin to count from 1; their records lie together."""
    traces = tmp_path / "traces"
    for number in range(2):
        home = tmp_path / f"up{number}"
        with process("up", "1", "--port", "0", "--directory", str(home), "--json", log=tmp_path / "log") as running:
            first_object(running, tmp_path / "log")
            running.terminate()
            running.wait(30)
        shutil.copytree(home / "trace", traces, dirs_exist_ok=True)
    checked = isotone("check", str(traces), "--json")
    assert checked.exit_code == 0, checked.stderr
    assert json.loads(checked.stdout)["runs"] == 2


def test_the_run_of_a_cluster_lasts_as_long_as_its_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = LocalCluster(places_of(1, 1, None), tmp_path)
    cluster.daemons = []
    monkeypatch.setattr(cluster, "is_together", lambda: True)
    cluster.start()
    assert LocalCluster(places_of(1, 1, None), tmp_path).run == cluster.run
    assert cluster.run.partition("@")[2] in cluster.settings.read_text()
    shutil.rmtree(tmp_path / "state")
    assert LocalCluster(places_of(1, 1, None), tmp_path).run != cluster.run


def test_daemons_that_cannot_start_say_why(tmp_path: Path) -> None:
    assert isotone("daemon", "run").exit_code == 2
    assert isotone("daemon", "run", str(tmp_path / "none.toml")).exit_code in (2, 3)
    wrong = tmp_path / "wrong.toml"
    wrong.write_text("[cluster]\nnam = 3\n")
    result = isotone("daemon", "run", str(wrong))
    assert result.exit_code == 2 and "nam" in result.stderr
