"""The Guard is an automaton: what belongs to it touches nothing outside, and follows the order of no set."""

from __future__ import annotations

from tests.architecture.source import Module, listed, modules
from tests.architecture.test_purity import hash_ordered, impure_calls, impure_imports

PACKAGE = "isotone.daemon.security"
WITH_FILES = {"keys", "credentials", "tls", "audit"}
ALLOWED = ("imports hmac",)  # computes, and compares in constant time


def guards() -> list[Module]:
    return [
        module
        for module in modules()
        if module.name.startswith(f"{PACKAGE}.") and module.name.rpartition(".")[2] not in WITH_FILES
    ]


def test_the_guard_is_pure() -> None:
    assert len(guards()) > 10
    offences = [
        offence
        for module in guards()
        for rule in (impure_imports, impure_calls, hash_ordered)
        for offence in rule(module)
        if not any(each in offence for each in ALLOWED)
    ]
    assert not offences, listed(offences)


SIGNED = ("isotone.host.flow_invitations", "isotone.host.hab_acts")  # texts and acts of operators, no traffic


def test_only_this_package_knows_cryptography() -> None:
    offences = [
        module.path
        for module in modules()
        if "cryptography" in module.text and not module.name.startswith((PACKAGE, *SIGNED)) and "import" in module.text
        for line in module.text.splitlines()
        if line.startswith(("import cryptography", "from cryptography"))
    ]
    assert not offences, listed(offences)
