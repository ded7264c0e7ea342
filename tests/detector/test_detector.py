"""The detector as an automaton: events by hand, actions compared, and scenes that users of other systems know."""

from __future__ import annotations

import pytest

from isotone.core.choice import Choice
from isotone.core.contract import CancelTimer, SetTimer, Started, TimerFired
from isotone.core.errors import LocalProtocolError
from isotone.detector.detector import Detector
from isotone.detector.evidence import Reason
from isotone.detector.settings import DetectorSettings
from isotone.detector.signals import (
    AnswerProbe,
    DoubtSelf,
    EvidenceReported,
    Heard,
    PeerAdded,
    PeerRemoved,
    ProbeAnswered,
    ProbeReceived,
    SendProbe,
    Suspect,
    Trust,
)
from isotone.detector.timeouts import Limit, Term
from tests.detector.network import Network, answer_after, never

SECOND = 1_000_000
SETTINGS = DetectorSettings()


def watching(*peers: str, round_trip_us: int = 500) -> Network:
    """A detector whose peers have answered for a while."""
    network = Network(Detector(SETTINGS), answer=answer_after(round_trip_us))
    for peer in peers:
        network.feed(PeerAdded(0, peer))
    network.run_until(20 * SECOND)
    assert network.first(Suspect) is None
    return network


# --- one event, its actions ---------------------------------------------------------------------------------------


def test_a_new_peer_is_probed_at_once_and_one_timer_is_armed() -> None:
    detector = Detector(SETTINGS)
    probe, timer = detector.handle(PeerAdded(7, "b"))
    assert probe == SendProbe("b", 1, fast=False)
    assert isinstance(timer, SetTimer) and timer.key == "detector" and 0 < timer.after_us <= SETTINGS.keep_alive_us
    assert detector.handle(PeerAdded(7, "b")) == []


def test_a_probe_is_answered_even_to_a_stranger_and_is_a_sign_of_life() -> None:
    detector = Detector(SETTINGS)
    assert detector.handle(ProbeReceived(5, "stranger", 9)) == [AnswerProbe("stranger", 9)]
    detector.handle(PeerAdded(10, "b"))
    assert detector.handle(ProbeReceived(100_000, "b", 3)) == [AnswerProbe("b", 3)]
    assert detector.report("b", 100_000).silent_us == 0


def test_hearing_a_peer_asks_for_nothing() -> None:
    network = watching("b", "c")
    for at in range(20 * SECOND, 21 * SECOND, 10_000):
        assert network.feed(Heard(at, "b")) == []


def test_an_answer_measures_the_round_trip() -> None:
    detector = Detector(SETTINGS)
    detector.handle(PeerAdded(0, "b"))
    detector.handle(ProbeAnswered(3_000, "b", 1))
    report = detector.report("b", 3_000)
    assert (report.smoothed_us, report.minimum_us, report.silent_us) == (3_000, 3_000, 0)


def test_a_link_may_hand_in_the_round_trip() -> None:
    detector = Detector(SETTINGS)
    detector.handle(PeerAdded(0, "b"))
    detector.handle(Heard(8_000, "b", 7_000))
    report = detector.report("b", 8_000)
    assert (report.smoothed_us, report.unanswered_us) == (7_000, 0)


def test_events_about_peers_that_are_not_watched_are_ignored() -> None:
    detector = Detector(SETTINGS)
    for event in (
        Heard(1, "x"),
        ProbeAnswered(1, "x", 1),
        PeerRemoved(1, "x"),
        EvidenceReported(1, "x", Reason.REFUSED_PORT),
        TimerFired(1, "detector"),
    ):
        assert detector.handle(event) == []


def test_removing_the_last_peer_cancels_the_timer() -> None:
    detector = Detector(SETTINGS)
    detector.handle(PeerAdded(0, "b"))
    assert detector.handle(PeerRemoved(1, "b")) == [CancelTimer("detector")]
    assert detector.handle(PeerRemoved(2, "b")) == []


def test_a_wrong_event_and_wrong_evidence_are_the_callers_fault() -> None:
    detector = Detector(SETTINGS)
    detector.handle(PeerAdded(0, "b"))
    with pytest.raises(LocalProtocolError, match="Started"):
        detector.handle(Started(1))
    with pytest.raises(LocalProtocolError, match="find out"):
        detector.handle(EvidenceReported(1, "b", Reason.SILENCE))
    with pytest.raises(LocalProtocolError, match="name its reporter"):
        detector.handle(EvidenceReported(1, "b", Reason.REPORT))


# --- silence -----------------------------------------------------------------------------------------------------


def test_silent_death_is_suspected_within_a_second_with_its_reason() -> None:
    network = watching("b", "c")
    died = network.now
    network.answer = lambda probe, at: None if probe.peer == "b" else 500
    network.run_until(died + 3 * SECOND)
    found = network.first(Suspect)
    assert found is not None
    at, suspicion = found
    assert isinstance(suspicion, Suspect) and suspicion.peer == "b"
    assert at - died < SECOND
    assert [evidence.reason for evidence in suspicion.evidence] == [Reason.SILENCE]
    assert suspicion.evidence[0].at <= died
    assert suspicion.explain().startswith("b: silence. Waited ")
    assert network.count(Suspect) == 1
    assert network.detector.suspected == ("b",)


@pytest.mark.parametrize("round_trip_us", [500, 200_000])
def test_the_last_probes_before_a_suspicion_are_fast_and_enough(round_trip_us: int) -> None:
    network = watching("b", round_trip_us=round_trip_us)
    died = network.now
    network.answer = never
    network.feed(Heard(died, "b"))
    network.run_until(died + 2 * SECOND)
    found = network.first(Suspect)
    assert found is not None
    probes = [action for at, action in network.log if died <= at < found[0] and isinstance(action, SendProbe)]
    assert len(probes) >= SETTINGS.probes_min
    assert [probe.fast for probe in probes] == [False] + [True] * (len(probes) - 1)


def test_a_sign_of_life_restores_trust_and_the_peer_is_measured_anew() -> None:
    network = watching("b")
    network.answer = never
    network.run_until(25 * SECOND)
    assert network.detector.suspected == ("b",)
    actions = network.feed(Heard(25 * SECOND, "b"))
    trust, probe = actions[:2]
    assert isinstance(trust, Trust) and trust.peer == "b" and 3 * SECOND < trust.suspected_us < 5 * SECOND
    assert isinstance(probe, SendProbe)
    assert network.detector.suspected == ()


def test_a_suspected_peer_is_probed_slowly_and_trusted_when_it_answers() -> None:
    network = watching("b")
    network.answer = never
    network.run_until(40 * SECOND)
    assert 15 <= network.count(SendProbe, 22 * SECOND) <= 20
    network.answer = answer_after(500)
    network.run_until(42 * SECOND)
    assert network.count(Trust) == 1 and network.detector.suspected == ()


def test_silence_does_not_extend_its_own_deadline() -> None:
    network = watching("b")
    network.answer = never
    network.feed(Heard(network.now, "b"))
    before = network.detector.report("b", network.now).limits.silence
    network.run_until(network.now + 400_000)
    assert network.detector.suspected == ()
    assert network.detector.report("b", network.now).limits.silence.us <= before.us


def test_lossy_but_alive_is_not_suspected_once_the_loss_is_known() -> None:
    choice = Choice("thirty per cent each way")
    network = watching("b")
    network.answer = lambda probe, at: 2_000 if choice.chance(0.49) else None
    network.run_until(60 * SECOND)
    settled = network.now
    network.run_until(1_000 * SECOND)
    assert network.count(Suspect, settled) == 0
    report = network.detector.report("b", network.now)
    assert report.limits.silence.dominant is Term.PROBES and report.lost_ppm > 250_000
    network.answer = answer_after(2_000)
    network.run_until(network.now + 60 * SECOND)
    assert network.detector.report("b", network.now).lost_ppm < 10_000


# --- evidence ----------------------------------------------------------------------------------------------------


def test_a_refused_port_is_confirmed_within_100_ms_of_silence() -> None:
    network = watching("b", "c")
    network.answer = lambda probe, at: None if probe.peer == "b" else 500
    refused = network.now + 50_000
    actions = network.feed(EvidenceReported(refused, "b", Reason.REFUSED_PORT))
    assert isinstance(actions[0], SendProbe) and actions[0].fast
    network.run_until(refused + SECOND)
    found = network.first(Suspect)
    assert found is not None and isinstance(found[1], Suspect)
    assert found[0] - refused < 100_000
    assert [evidence.reason for evidence in found[1].evidence] == [Reason.REFUSED_PORT, Reason.SILENCE]


@pytest.mark.parametrize("reason", [Reason.REFUSED_PORT, Reason.FAILED_LINK, Reason.REPORT])
def test_forged_evidence_never_excludes_a_peer_that_answers(reason: Reason) -> None:
    network = watching("b", round_trip_us=20_000)
    start = network.now
    for at in range(start, start + 20 * SECOND, 7_000):
        network.feed(EvidenceReported(at, "b", reason, "mallory"))
    assert network.count(Suspect) == 0


def test_forged_evidence_cannot_keep_us_probing() -> None:
    quiet = watching("b")
    forged = watching("b")
    start = forged.now
    for at in range(start, start + 20 * SECOND, 5_000):
        forged.feed(EvidenceReported(at, "b", Reason.REFUSED_PORT))
    quiet.run_until(start + 20 * SECOND)
    assert forged.count(SendProbe, start) < 1.5 * quiet.count(SendProbe, start)


def test_reports_by_several_others_name_them_and_shorten_the_wait_once() -> None:
    network = watching("b")
    network.answer = never
    start = network.now
    network.feed(EvidenceReported(start, "b", Reason.REPORT, "c"))
    deadline = network.detector.report("b", start).suspected_in_us
    network.feed(EvidenceReported(start + 20_000, "b", Reason.REPORT, "d"))
    assert deadline is not None
    assert network.detector.report("b", start + 20_000).suspected_in_us == deadline - 20_000
    network.run_until(start + SECOND)
    found = network.first(Suspect)
    assert found is not None and isinstance(found[1], Suspect)
    assert [evidence.reporter for evidence in found[1].evidence] == ["c", "d", ""]


def test_evidence_late_in_a_silence_does_not_lengthen_it() -> None:
    network = watching("b")
    died = network.now
    network.answer = never
    waits = network.detector.report("b", died)
    assert waits.suspected_in_us is not None
    network.feed(EvidenceReported(died + waits.suspected_in_us - 10_000, "b", Reason.FAILED_LINK))
    network.run_until(died + waits.suspected_in_us + 20_000)
    assert network.detector.suspected == ("b",)


# --- one-way links -----------------------------------------------------------------------------------------------


def test_a_peer_that_is_heard_but_cannot_hear_us_is_suspected_and_only_an_answer_clears_it() -> None:
    network = watching("b")
    cut = network.now
    network.answer = never
    for at in range(cut, cut + 10 * SECOND, 100_000):
        network.feed(Heard(at, "b"))
    found = network.first(Suspect)
    assert found is not None and isinstance(found[1], Suspect)
    assert found[1].evidence[-1].reason is Reason.ONE_WAY
    assert network.count(Suspect) == 1 and network.count(Trust) == 0
    network.answer = answer_after(500)
    network.run_until(network.now + 2 * SECOND)
    assert network.count(Trust) == 1


def test_one_probe_that_is_lost_right_behind_an_answer_proves_nothing() -> None:
    """The next ones follow at the usual interval, however lately the peer was measured."""
    network = watching("b")
    start = network.now
    while network.first(SendProbe, start) is None:
        network.feed(Heard(network.now + 10_000, "b"))  # it talks, and is measured once more
    network.feed(Heard(network.now + 10_000, "b"))
    lost = network.now
    network.answer = never
    assert network.feed(EvidenceReported(lost, "b", Reason.REPORT, reporter="c")), "which sends a probe at once"
    network.answer = answer_after(500)
    for at in range(lost + 1_000, lost + 3 * SECOND, 10_000):
        network.feed(Heard(at, "b"))
    probes = [at for at, action in network.log if isinstance(action, SendProbe) and at > lost]
    assert probes[0] - lost <= SETTINGS.keep_alive_us + 10_000
    assert network.first(Suspect) is None


def test_neither_a_pause_nor_hearing_it_again_makes_up_for_an_answer() -> None:
    network = watching("b")
    network.answer = never
    for at in range(network.now, network.now + 10 * SECOND, 100_000):
        network.feed(Heard(at, "b"))
    network.sleep(network.now + 60 * SECOND)
    network.feed(Heard(network.now, "b"))
    network.run_until(network.now + 3 * SECOND)
    assert network.detector.suspected == ("b",) and network.count(Trust) == 0


def test_one_way_silence_at_the_other_end_is_plain_silence() -> None:
    """The daemon that hears nothing suspects, however well it is heard itself."""
    network = watching("a")
    network.answer = never
    network.run_until(network.now + SECOND)
    found = network.first(Suspect)
    assert found is not None and isinstance(found[1], Suspect)
    assert found[1].evidence[-1].reason is Reason.SILENCE


def test_answers_need_not_be_required() -> None:
    detector = Detector(DetectorSettings(require_answers=False))
    network = Network(detector)
    network.feed(PeerAdded(0, "b"))
    for at in range(1, 60 * SECOND, 100_000):
        network.feed(Heard(at, "b"))
    assert network.count(Suspect) == 0


# --- pauses of our own ---------------------------------------------------------------------------------------------


def test_after_a_pause_we_doubt_ourselves_and_suspect_nobody_who_answers() -> None:
    network = watching("b", "c", "d")
    network.sleep(network.now + 30 * SECOND)
    network.run_until(network.now + 10 * SECOND)
    found = network.first(DoubtSelf)
    assert found is not None and isinstance(found[1], DoubtSelf)
    assert 29 * SECOND < found[1].slept_us < 31 * SECOND
    assert network.count(DoubtSelf) == 1 and network.count(Suspect) == 0
    at_once = [action.peer for at, action in network.log if at == found[0] and isinstance(action, SendProbe)]
    assert at_once == ["b", "c", "d"]


def test_a_pause_is_noticed_by_the_first_event_whatever_it_is() -> None:
    network = watching("b", "c")
    network.sleep(network.now + 5 * SECOND)
    actions = network.hand_in(Heard(network.now, "c"))
    assert isinstance(actions[0], DoubtSelf)


def test_after_a_pause_fast_probes_end_with_the_first_sign_of_life() -> None:
    network = watching("b")
    network.sleep(network.now + 5 * SECOND)
    resumed = network.now
    network.run_until(resumed + 10 * SECOND)
    fast = [at for at, action in network.log if at >= resumed and isinstance(action, SendProbe) and action.fast]
    assert fast == [resumed]


def test_a_pause_within_the_round_of_probes_does_not_use_it_up() -> None:
    network = watching("b")
    network.answer = never
    network.feed(Heard(network.now, "b"))
    network.run_until(network.now + 500_000)
    network.sleep(network.now + SECOND)
    network.run_until(network.now + 10_000)
    network.sleep(network.now + SECOND)
    network.run_until(network.now + 1)
    report = network.detector.report("b", network.now)
    assert report.suspected_in_us == report.limits.grace.us - 1
    assert network.count(DoubtSelf) == 2


def test_who_died_during_our_pause_is_found_after_a_round_of_probes() -> None:
    network = watching("b", "c")
    network.answer = lambda probe, at: None if probe.peer == "b" else 500
    network.sleep(network.now + 60 * SECOND)
    resumed = network.now
    network.run_until(resumed + 5 * SECOND)
    found = network.first(Suspect)
    assert found is not None and isinstance(found[1], Suspect) and found[1].peer == "b"
    assert 200_000 < found[0] - resumed < 1_500_000
    assert network.count(SendProbe, resumed) >= 2 * SETTINGS.probes_min - 2


def test_evidence_from_before_a_pause_needs_a_round_of_probes_too() -> None:
    network = watching("b")
    network.answer = answer_after(30_000)
    network.feed(EvidenceReported(network.now, "b", Reason.REFUSED_PORT))
    network.sleep(network.now + SECOND)
    network.run_until(network.now + 5 * SECOND)
    assert network.count(Suspect) == 0


def test_repeated_pauses_delay_a_suspicion_but_only_by_the_time_asleep() -> None:
    network = watching("b")
    network.answer = never
    awake = 0
    while network.count(Suspect) == 0:
        network.sleep(network.now + SECOND)
        network.run_until(network.now + 200_000)
        awake += 200_000
        assert awake < 10 * SECOND


def test_too_few_probes_make_us_doubt_ourselves_first() -> None:
    """Wake-ups so late that a confirmation period passes almost without probes: no verdict on the peer from that."""
    network = watching("b")
    confirmed_at = network.now + 190_000
    network.answer = lambda probe, at: 1_000 if at > confirmed_at else None
    network.lateness = lambda: 59_000
    network.feed(EvidenceReported(network.now, "b", Reason.REFUSED_PORT))
    network.run_until(network.now + 3 * SECOND)
    doubt = network.first(DoubtSelf)
    assert doubt is not None and isinstance(doubt[1], DoubtSelf) and doubt[1].reason.startswith("b got only")
    assert network.count(Suspect) == 0


# --- timeouts that follow the measurements -------------------------------------------------------------------------


def test_jitter_raises_timeouts_and_they_come_down_again() -> None:
    network = watching("b")
    calm = network.detector.report("b", network.now).limits.silence
    choice = Choice("jitter")
    network.answer = lambda probe, at: 500 + choice.below(80_000)
    network.run_until(network.now + 60 * SECOND)
    rough = network.detector.report("b", network.now).limits.silence
    network.answer = answer_after(500)
    network.run_until(network.now + 60 * SECOND)
    again = network.detector.report("b", network.now).limits.silence
    assert rough.us > calm.us + 100_000 and rough.grown_by_jitter_us > calm.grown_by_jitter_us + 100_000
    assert again.us < calm.us + 5_000


def test_own_late_wake_ups_raise_timeouts_and_they_come_down_again() -> None:
    network = watching("b")
    calm = network.detector.report("b", network.now).limits.silence.us
    network.lateness = lambda: 50_000
    network.run_until(network.now + 10 * SECOND)
    assert network.detector.lateness_us == 50_000
    rough = network.detector.report("b", network.now).limits.silence
    assert rough.us == calm + 100_000 and dict(rough.terms)[Term.LATENESS] == 100_000
    network.lateness = lambda: 0
    network.run_until(network.now + 20 * SECOND)
    assert network.detector.report("b", network.now).limits.silence.us < calm + 1_000
    assert network.count(DoubtSelf) == 0


def test_floors_and_ceilings_are_kept_and_said() -> None:
    settings = DetectorSettings(silence_floor_us=2 * SECOND, confirm_floor_us=20_000, confirm_ceiling_us=30_000)
    detector = Detector(settings)
    detector.handle(PeerAdded(0, "b"))
    detector.handle(ProbeAnswered(1_000, "b", 1))
    limits = detector.report("b", 1_000).limits
    assert (limits.silence.us, limits.silence.limit) == (2 * SECOND, Limit.FLOOR)
    assert (limits.confirm.us, limits.confirm.limit) == (30_000, Limit.CEILING)
    assert limits.silence.explain().endswith("raised to the floor")


# --- cost ----------------------------------------------------------------------------------------------------------


def test_idle_keep_alives_stay_within_the_interval_and_wake_ups_are_shared() -> None:
    peers = [f"peer{number}" for number in range(8)]
    network = watching(*peers)
    start = network.now
    network.run_until(start + 60 * SECOND)
    probes = network.count(SendProbe, start) / 60
    wake_ups = network.count(SetTimer, start) / 60
    assert probes <= len(peers) * SECOND / (SETTINGS.keep_alive_us * 7 / 8)
    assert wake_ups <= 2 * SECOND / (SETTINGS.keep_alive_us * 7 / 8)


def test_a_peer_that_talks_is_probed_only_to_measure() -> None:
    network = watching("b")
    start = network.now
    for at in range(start, start + 60 * SECOND, 50_000):
        network.feed(Heard(at, "b"))
    assert network.count(SendProbe, start) <= 31


def test_what_a_starting_peer_cost_is_soon_forgotten() -> None:
    """It answers slowly once, then quickly: a refused port is soon confirmed with the usual wait."""
    network = Network(Detector(SETTINGS), answer=lambda probe, at: 80_000 if probe.nonce == 1 else 500)
    network.feed(PeerAdded(0, "b"))
    for at in range(10_000, 3 * SECOND // 2, 10_000):
        network.feed(Heard(at, "b"))
    assert network.detector.report("b", network.now).limits.confirm.us < 80_000
    assert network.count(SendProbe) == SETTINGS.learn_samples


def test_a_peer_whose_round_trips_vary_is_measured_at_the_keep_alive_interval_until_they_do_not() -> None:
    network = watching("b")
    network.answer = lambda probe, at: 500 if probe.nonce % 2 else 60_000
    start = network.now
    for at in range(start, start + 30 * SECOND, 10_000):
        network.feed(Heard(at, "b"))
    assert network.detector.report("b", network.now).variation_us > SETTINGS.granularity_us
    network.answer = answer_after(500)
    slow = network.now
    for at in range(slow, slow + 10 * SECOND, 10_000):
        network.feed(Heard(at, "b"))
    assert network.detector.report("b", network.now).variation_us <= SETTINGS.granularity_us
    calm = network.now
    assert 20 <= network.count(SendProbe, slow) <= 10 * SECOND / SETTINGS.keep_alive_us
    for at in range(calm, calm + 10 * SECOND, 10_000):
        network.feed(Heard(at, "b"))
    assert network.count(SendProbe, calm) <= 6


def test_many_peers_lengthen_the_keep_alive_interval() -> None:
    detector = Detector(SETTINGS)
    for number in range(50):
        detector.handle(PeerAdded(0, f"peer{number}"))
    assert detector.keep_alive_us == 50 * 30_000
    for number in range(49):
        detector.handle(PeerRemoved(0, f"peer{number}"))
    assert detector.keep_alive_us == SETTINGS.keep_alive_us
