"""ops/compose.yml and ops/compose.toml say the same, and the settings are right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from isotone.daemon.settings import load_in_full

OPS = Path(__file__).resolve().parents[2] / "ops"


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((OPS / "compose.yml").read_text(encoding="utf-8"))
    return found


def test_each_container_is_a_daemon_of_the_settings_at_its_address() -> None:
    settings = load_in_full(OPS / "compose.toml").settings
    services = compose()["services"]
    assert [daemon.name for daemon in settings.daemon] == list(services)
    for daemon in settings.daemon:
        service = services[daemon.name]
        assert service["command"][-2:] == ["--name", daemon.name]
        assert service["networks"]["cluster"]["ipv4_address"] == daemon.address
        assert all(port.startswith("127.0.0.1:") for port in service["ports"]), "nobody else reaches them"
        assert f"{daemon.name}:/var/lib/isotone" in service["volumes"]
    assert set(compose()["volumes"]) == set(services)


def test_the_image_is_made_from_files_that_are_there() -> None:
    lines = (OPS / "Containerfile").read_text(encoding="utf-8").splitlines()
    copied = [
        name for line in lines if line.startswith("COPY ") and "--from" not in line for name in line.split()[1:-1]
    ]
    assert copied and all((OPS.parent / name).exists() for name in copied)
    assert compose()["x-daemon"]["build"]["dockerfile"] == "ops/Containerfile"
