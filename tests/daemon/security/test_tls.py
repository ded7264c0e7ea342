"""TLS contexts against each other, without sockets: what is expired, of somebody else or for elsewhere is refused."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.x509.oid import NameOID

from isotone.core.contract import Address
from isotone.core.errors import InputError
from isotone.daemon.security.access import Access
from isotone.daemon.security.tls import client_context, renew, server_context
from isotone.daemon.tls import why_refused
from isotone.evs.sessions.admission import Admitted

DAY = timedelta(days=1)


class Issuer:
    """An authority of certificates, for tests."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory, self._name = directory, _named(name)
        self._key = generate_private_key(SECP256R1())
        self.path = directory / f"{name}.pem"
        certificate = self._builder(self._name, self._key, timedelta(days=1)).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        self._write(self.path, certificate.sign(self._key, hashes.SHA256()), None)

    def issue(self, name: str, *, valid: timedelta = DAY) -> Path:
        """A file with a certificate for this name and its key; of the past if ``valid`` is negative."""
        key = generate_private_key(SECP256R1())
        builder = self._builder(_named(name), key, valid).add_extension(
            x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False
        )
        path = self._directory / f"{name}-{len(list(self._directory.iterdir()))}.pem"
        self._write(path, builder.sign(self._key, hashes.SHA256()), key)
        return path

    def _builder(self, subject: x509.Name, key: EllipticCurvePrivateKey, valid: timedelta) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 10 * DAY)
            .not_valid_after(now + valid)
        )

    def _write(self, path: Path, certificate: x509.Certificate, key: EllipticCurvePrivateKey | None) -> None:
        data = certificate.public_bytes(serialization.Encoding.PEM)
        if key is not None:
            data += key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        path.write_bytes(data)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


@pytest.fixture
def issuer(tmp_path: Path) -> Issuer:
    return Issuer(tmp_path, "authority")


def shake_hands(
    server: ssl.SSLContext, client: ssl.SSLContext, host: str = "daemon.test"
) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Both ends in memory, until both are done; raises what either of them raises."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=host),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    done = [False, False]
    for _ in range(10):
        for index, end in enumerate(ends):
            if not done[index]:
                try:
                    end.do_handshake()
                    done[index] = True
                except ssl.SSLWantReadError:
                    pass
        if all(done):
            break
    ends[1].write(b"welcome")
    assert ends[0].read(100) == b"welcome"
    return ends[0], ends[1]


def test_a_client_finds_the_daemon_it_trusts(issuer: Issuer) -> None:
    daemon = issuer.issue("daemon.test")
    client, server = shake_hands(server_context(daemon, daemon), client_context(issuer.path))
    assert client.version() in ("TLSv1.2", "TLSv1.3") and server.getpeercert() is None


@pytest.mark.parametrize("problem", ["expired", "another authority", "another name"])
def test_a_wrong_certificate_of_a_daemon_is_refused(issuer: Issuer, tmp_path: Path, problem: str) -> None:
    signer = Issuer(tmp_path, "other") if problem == "another authority" else issuer
    name = "elsewhere.test" if problem == "another name" else "daemon.test"
    daemon = signer.issue(name, valid=-DAY if problem == "expired" else DAY)
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(server_context(daemon, daemon), client_context(issuer.path))


def test_a_client_certificate_becomes_a_principal(issuer: Issuer) -> None:
    daemon, carol = issuer.issue("daemon.test"), issuer.issue("carol")
    context = server_context(daemon, daemon, issuer.path)
    _, server = shake_hands(context, client_context(issuer.path, carol))
    certificate = server.getpeercert()
    assert certificate is not None
    access, peer = Access(anonymous=False), Address("192.0.2.1:1")
    assert access.certified(peer, dict(certificate)) == "cert/carol"
    assert access.admit("carol", b"", peer) == Admitted("cert/carol")
    _, without = shake_hands(context, client_context(issuer.path))
    assert not without.getpeercert(), "a credential will do instead"


@pytest.mark.parametrize("problem", ["expired", "another authority"])
def test_a_wrong_certificate_of_a_client_is_refused(issuer: Issuer, tmp_path: Path, problem: str) -> None:
    signer = Issuer(tmp_path, "other") if problem == "another authority" else issuer
    carol = signer.issue("carol", valid=-DAY if problem == "expired" else DAY)
    daemon = issuer.issue("daemon.test")
    access = Access()
    context = server_context(daemon, daemon, issuer.path)
    for port in range(2):
        with pytest.raises(ssl.SSLError) as refused:
            shake_hands(context, client_context(issuer.path, carol))
        access.tls_refused(*why_refused(refused.value), Address(f"192.0.2.1:{port}"))
    assert access.refused == {"wrong certificate": 2}
    assert [(note.peer, note.reason) for note in access.notes()] == [("192.0.2.1", "wrong certificate")]


def test_what_is_no_tls_is_refused(issuer: Issuer) -> None:
    daemon = issuer.issue("daemon.test")
    to_server = ssl.MemoryBIO()
    server = server_context(daemon, daemon).wrap_bio(to_server, ssl.MemoryBIO(), server_side=True)
    to_server.write(b"GET / HTTP/1.1\r\n\r\n" * 10)
    with pytest.raises(ssl.SSLError) as refused:
        server.do_handshake()
    assert why_refused(refused.value)[0] == "TLS handshake failed"


def test_a_certificate_is_renewed_without_a_restart(issuer: Issuer, tmp_path: Path) -> None:
    first, second = issuer.issue("daemon.test"), issuer.issue("daemon.test", valid=2 * DAY)
    shown = tmp_path / "shown.pem"
    shown.write_bytes(first.read_bytes())
    context = server_context(shown, shown)
    serials = []
    for written in (second.read_bytes(), b"nonsense"):
        client, _ = shake_hands(context, client_context(issuer.path))
        serials.append((client.getpeercert() or {})["serialNumber"])
        shown.write_bytes(written)
        if written != b"nonsense":
            renew(context, shown, shown)
    with pytest.raises(InputError, match=r"shown\.pem"):
        renew(context, shown, shown)
    client, _ = shake_hands(context, client_context(issuer.path))
    assert (client.getpeercert() or {})["serialNumber"] == serials[1] != serials[0]


def test_files_that_cannot_be_used_are_named(issuer: Issuer, tmp_path: Path) -> None:
    missing = tmp_path / "missing.pem"
    with pytest.raises(InputError, match=r"missing\.pem"):
        server_context(missing, missing)
    daemon = issuer.issue("daemon.test")
    with pytest.raises(InputError, match=r"missing\.pem"):
        server_context(daemon, daemon, missing)
    with pytest.raises(InputError, match="cannot be used"):
        server_context(daemon, issuer.issue("another"))
