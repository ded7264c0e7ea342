"""What strangers may cost, and how often they are told of."""

from __future__ import annotations

from isotone.daemon.security.limits import NOTE_AGAIN_US, NOTES_MAX, PATIENCE_US, Bucket, Refusals


def test_a_bucket_gives_what_it_holds_and_fills_again() -> None:
    bucket = Bucket(3, 10)
    assert [bucket.take(0) for _ in range(4)] == [True, True, True, False]
    assert not bucket.take(99_999)
    assert bucket.take(100_000) and not bucket.take(100_000)
    assert [bucket.take(10**9) for _ in range(4)] == [True, True, True, False], "never more than it holds"


def test_a_bucket_can_keep_a_part_for_others() -> None:
    bucket = Bucket(4, 1)
    assert [bucket.take(0, leave=2) for _ in range(3)] == [True, True, False]
    assert [bucket.take(0) for _ in range(3)] == [True, True, False]


def test_each_peer_and_reason_is_told_once_in_a_while() -> None:
    refusals = Refusals()
    assert refusals.count(0, "b", "replayed") is not None
    assert refusals.count(1, "b", "replayed") is None
    assert refusals.count(1, "c", "replayed") is not None
    assert refusals.count(1, "b", "wrong key") is not None
    assert refusals.count(NOTE_AGAIN_US, "b", "replayed") is not None
    assert refusals.counts == {"replayed": 4, "wrong key": 1}


def test_what_happens_at_every_first_contact_is_told_only_if_it_goes_on() -> None:
    refusals = Refusals()
    assert refusals.count(5, "b", "unknown key") is None
    note = refusals.count(5 + PATIENCE_US, "b", "unknown key")
    assert note is not None and "b: sends under a key" in note.text
    assert refusals.count(6 + PATIENCE_US, "b", "unknown key") is None


def test_memory_is_bounded_whatever_strangers_do() -> None:
    refusals = Refusals()
    notes = [refusals.count(1, f"stranger {number}", "not sealed") for number in range(3 * NOTES_MAX)]
    assert sum(note is not None for note in notes) == NOTES_MAX
    for number in range(3 * NOTES_MAX):
        refusals.count(1, f"stranger {number}", "unknown key")
    assert len(refusals._told) == len(refusals._first) == NOTES_MAX
    assert refusals.counts == {"not sealed": 3 * NOTES_MAX, "unknown key": 3 * NOTES_MAX}
    assert refusals.count(1 + NOTE_AGAIN_US, "later", "not sealed") is not None
