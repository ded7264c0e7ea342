"""Evidence: what starts a confirmation period, and what loses credit."""

from __future__ import annotations

from isotone.detector.evidence import CREDITS_MAX, Evidence, EvidenceBook, Reason
from isotone.detector.settings import DetectorSettings

SETTINGS = DetectorSettings(hold_off_min_us=100, hold_off_max_us=1_000, evidence_max=3)


def refused(at: int) -> Evidence:
    return Evidence(Reason.REFUSED_PORT, at)


def report(at: int, reporter: str) -> Evidence:
    return Evidence(Reason.REPORT, at, reporter)


def test_the_first_evidence_accuses_and_later_ones_are_noted() -> None:
    book = EvidenceBook(SETTINGS)
    assert book.is_empty and book.accused_at is None
    assert book.note(refused(5))
    assert not book.note(refused(6))
    assert not book.note(report(7, "c"))
    assert book.accused_at == 5
    assert book.entries == (refused(5), report(7, "c"))


def test_notes_are_bounded() -> None:
    book = EvidenceBook(SETTINGS)
    for number in range(10):
        book.note(report(number, f"reporter{number}"))
    assert len(book.entries) == SETTINGS.evidence_max


def test_contradicted_evidence_is_not_believed_for_a_time_that_doubles_up_to_a_limit() -> None:
    book = EvidenceBook(SETTINGS)
    at = 0
    for hold_off in (100, 200, 400, 800, 1_000, 1_000):
        assert book.note(refused(at))
        book.contradict(at)
        assert not book.note(refused(at + hold_off - 1))
        assert book.accused_at is None and book.entries == (refused(at + hold_off - 1),)
        book.forget()
        at += hold_off


def test_evidence_that_was_not_believed_can_be_believed_later_in_the_same_silence() -> None:
    book = EvidenceBook(SETTINGS)
    book.note(refused(0))
    book.contradict(0)
    assert not book.note(refused(50))
    assert book.note(refused(100))
    assert book.accused_at == 100 and book.entries == (refused(50),)


def test_evidence_that_was_not_believed_costs_no_further_credit() -> None:
    book = EvidenceBook(SETTINGS)
    book.note(refused(0))
    book.contradict(0)
    book.note(refused(99))
    book.contradict(99)
    assert book.note(refused(100))


def test_credit_comes_back_after_a_long_quiet_time() -> None:
    book = EvidenceBook(SETTINGS)
    for at in (0, 100, 300):
        assert book.note(refused(at))
        book.contradict(at)
    quiet = 300 + 400 + SETTINGS.hold_off_max_us
    assert book.note(refused(quiet))
    book.contradict(quiet)
    assert book.note(refused(quiet + SETTINGS.hold_off_min_us))


def test_one_liar_does_not_discredit_another_reporter() -> None:
    book = EvidenceBook(SETTINGS)
    book.note(report(0, "liar"))
    book.contradict(0)
    assert not book.note(report(1, "liar"))
    assert book.note(report(2, "honest"))


def test_the_number_of_known_liars_is_bounded() -> None:
    book = EvidenceBook(SETTINGS)
    for number in range(CREDITS_MAX + 1):
        book.note(report(0, f"liar{number}"))
        book.contradict(0)
    assert book.note(report(1, "liar0"))
    book.forget()
    assert not book.note(report(1, "liar1"))


def test_explanations_name_reason_reporter_and_detail() -> None:
    assert report(0, "c").explain() == "reported by another (c)"
    assert Evidence(Reason.FAILED_LINK, 0, "", "a~b").explain() == "a link to it failed: a~b"
