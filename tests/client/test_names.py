"""The names that users import, and that importing `isotone` loads nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

import isotone
from isotone.client import blocking
from isotone.core.services import Service


def test_every_public_name_is_there() -> None:
    for name in isotone.__all__:
        assert getattr(isotone, name) is not None
    assert isotone.SAFE is Service.SAFE and set(dir(isotone)) >= {"connect", "SAFE", "testing"}
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = isotone.nothing  # type: ignore[attr-defined]


def test_importing_loads_nothing_until_it_is_asked_for() -> None:
    code = "import isotone, sys; assert not [m for m in sys.modules if m.startswith('isotone.')]; isotone.connect"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_the_twin_has_the_same_names() -> None:
    for one, twin in ((isotone.Session, blocking.Session), (isotone.Group, blocking.Group)):
        missing = {name for name in vars(one) if not name.startswith("_")} - set(dir(twin))
        assert missing <= {"groups", "dropped_private"}, missing
