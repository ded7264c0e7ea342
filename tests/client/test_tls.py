"""Sessions over TLS: the right certificate, a wrong one, one for another host, none at all."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import isotone
from isotone.client import Settings
from isotone.client.connecting import tls_context
from isotone.client.errors import ConnectFailed
from isotone.core.errors import InputError
from isotone.evs.sessions.settings import ClientSettings
from tests.client.daemon import Daemon, run
from tests.passing_time import pass_time

PATIENT = Settings(session=ClientSettings(connect_within_us=3_600_000_000))
LONG_S = 20
LONG = Settings(session=ClientSettings(connect_within_us=LONG_S * 1_000_000))
BRIEF = Settings(session=ClientSettings(connect_within_us=300_000, retry_max_us=100_000))


def certificate(directory: Path, name: str, *names: x509.GeneralName) -> tuple[Path, ssl.SSLContext]:
    """A certificate that vouches for itself, and a server's context with it."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(list(names)), critical=False)
        .sign(key, hashes.SHA256())
    )
    path, key_path = directory / f"{name}.pem", directory / f"{name}.key"
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8
    key_path.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(path, key_path)
    return path, context


def test_tls(tmp_path: Path) -> None:
    local = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    path, server = certificate(tmp_path, "right", local, x509.DNSName("daemon.example"))
    other, _ = certificate(tmp_path, "other", local)

    async def main() -> None:
        async with Daemon(tls=server) as daemon:
            async with isotone.connect(daemon.address, tls=path) as me:
                chat = await me.join("chat")
                await chat.send_many([bytes(10_000)] * 100, confirm=True)
                daemon.cut()
                await chat.send(b"again", confirm=True)
            named = Settings(server_name="daemon.example")
            async with isotone.connect(daemon.address, tls=str(path), settings=named):
                pass
            context = ssl.create_default_context(cafile=str(path))
            async with isotone.connect(daemon.address, tls=context):
                pass
            wrong_name = Settings(server_name="elsewhere.example", session=PATIENT.session)
            for tls, settings in ((other, PATIENT), (True, PATIENT), (path, wrong_name)):
                with pytest.raises(ConnectFailed, match="certificate verify failed") as failed:
                    await isotone.connect(daemon.address, tls=tls, settings=settings)
                assert failed.value.code == "certificate"
            with pytest.raises(ConnectFailed):
                await isotone.connect(daemon.address, settings=BRIEF)

    run(main)


def test_tls_over_a_unix_socket_and_to_a_daemon_without(tmp_path: Path) -> None:
    path, server = certificate(tmp_path, "right", x509.DNSName("localhost"))

    async def main() -> None:
        async with Daemon(tls=server, unix=f"{tmp_path}/s") as daemon, isotone.connect(daemon.address, tls=path) as me:
            await me.send("g", b"x")
        async with Daemon() as plain:
            with pytest.raises(ConnectFailed):
                await isotone.connect(plain.address, tls=path, settings=BRIEF)

    run(main)


def test_another_daemon_may_have_a_better_certificate(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One is refused for its certificate: the next is asked, and the log says it; once, however often it is asked."""
    path, server = certificate(tmp_path, "right", x509.DNSName("localhost"))
    _, other = certificate(tmp_path, "other", x509.DNSName("localhost"))

    async def main() -> None:
        async with Daemon(tls=other, unix=f"{tmp_path}/o") as wrong, Daemon(tls=server, unix=f"{tmp_path}/s") as right:
            async with isotone.connect([wrong.address, right.address], tls=path, settings=PATIENT) as me:
                await me.send("g", b"x")
            passing = asyncio.create_task(let_time_pass_behind_the_second())
            with pytest.raises(ConnectFailed, match="certificate verify failed") as failed:
                await isotone.connect([wrong.address, f"unix:{tmp_path}/nobody"], tls=path, settings=LONG)
            await passing
            assert failed.value.code == "unreachable"

    def told() -> int:
        return sum("certificate verify failed" in record.getMessage() for record in caplog.records)

    async def let_time_pass_behind_the_second() -> None:
        while told() < 2:
            await asyncio.sleep(0)
        pass_time(LONG_S)

    run(main)
    assert told() == 2, "one for each client"


def test_what_tls_may_be(tmp_path: Path) -> None:
    assert tls_context(None) is tls_context(False) is None
    with pytest.raises(InputError, match="cannot be used"):
        tls_context(tmp_path / "missing.pem")
    (tmp_path / "empty.pem").write_text("nothing")
    with pytest.raises(InputError, match="cannot be used"):
        tls_context(tmp_path / "empty.pem")
