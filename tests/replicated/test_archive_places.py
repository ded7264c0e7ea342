"""Where an archive may be, and what of it nobody else may see."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyarrow import fs

from isotone.core.errors import InputError
from isotone.replicated.archive.places import below, file_system
from isotone.replicated.archive.store import Archive


@pytest.mark.parametrize(
    ("uri", "told"),
    [
        ("s3://AKIA:hush@bucket/folder", "a password"),
        ("s3://bucket/folder?access_key=AKIA&secret_key=hush", "access_key, secret_key"),
        ("gs://bucket/folder?access_token=hush", "access_token"),
        ("abfs://box@account.dfs.core.windows.net/folder?sas_token=hush", "sas_token"),
    ],
)
def test_a_uri_with_a_secret_is_refused_and_not_repeated(uri: str, told: str) -> None:
    with pytest.raises(InputError, match=f"holds {told}, and others see it") as refused:
        Archive(uri)
    assert "hush" not in str(refused.value) and "AKIA:" not in str(refused.value)


def test_a_uri_without_a_secret_names_its_place(tmp_path: Path) -> None:
    for uri in ("s3://bucket/folder?region=eu-north-1&scheme=https", "abfs://box@account.dfs.core.windows.net/folder"):
        assert file_system(uri, "")[0].type_name in ("s3", "abfs")
    assert file_system(f"file://{tmp_path}", "")[1] == str(tmp_path)


CREDENTIALS: tuple[tuple[str, str, dict[str, str], dict[str, Any], str], ...] = (
    ("s3://bucket/folder/?region=x", "S3FileSystem", {"access_key": "a"}, {"region": "x"}, "bucket/folder"),
    ("gs://bucket/folder", "GcsFileSystem", {"access_token": "t"}, {}, "bucket/folder"),
    ("gs://bucket", "GcsFileSystem", {"credential_token_expiration": "2030-01-02T03:04:05+00:00"},
     {"credential_token_expiration": datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)}, "bucket"),
    ("abfs://box@name.dfs.core.windows.net/folder", "AzureFileSystem", {"account_name": "name"}, {}, "box/folder"),
)  # fmt: skip
"""URI, file system, what the file says; what is added to that or changed in it, and the path."""


def test_a_credential_file_goes_to_the_file_system_of_the_uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "credentials.json"
    for uri, kind, given, changed, root in CREDENTIALS:
        taken: list[dict[str, Any]] = []
        monkeypatch.setattr(fs, kind, lambda taken=taken, kind=kind, **arguments: taken.append(arguments) or kind)
        path.write_bytes(msgspec.json.encode(given))
        assert file_system(uri, str(path)) == (kind, root)
        assert taken == [given | changed]


def test_a_folder_below_a_place() -> None:
    for uri, folder in (
        ("/srv/archive/", "/srv/archive/changes"),
        ("/srv/what?", "/srv/what?/changes"),
        ("s3://bucket/log", "s3://bucket/log/changes"),
        ("s3://bucket/log/?region=eu-north-1&scheme=https", "s3://bucket/log/changes?region=eu-north-1&scheme=https"),
    ):
        assert below(uri, "changes") == folder


def test_a_place_that_needs_no_credentials_takes_none(tmp_path: Path) -> None:
    path = tmp_path / "credentials.json"
    path.write_text('{"access_key": "a"}')
    with pytest.raises(InputError, match="takes no credential file"):
        Archive(tmp_path / "archive", str(path))
