"""Why is this message not delivered: a client that does not read holds up its sender, simulated."""

from __future__ import annotations

from isotone.core.boundary import Send
from isotone.core.ids import MessageId
from isotone.evs.explain import Place, Wait, why_not_delivered
from tests.evs.sessions.test_held_elsewhere import ONE_SITE, blocked


def test_a_message_in_the_inbox_of_a_session_that_is_held_for_a_reader_elsewhere() -> None:
    scene = blocked(ONE_SITE, pruning=False)
    (alice,) = (session for session in scene.sessions("d2").all if session.client.name == "alice")
    waiting = alice.inbox[-1].request
    assert isinstance(waiting, Send)
    for sequence in (waiting.bundle.last_sequence, waiting.bundle.last_sequence + 1):
        answer = why_not_delivered(scene.daemons.stack("d2"), MessageId(alice.client, sequence), scene.world.now)
        assert (answer.place, answer.groups) == (Place.UNKNOWN, ("g",))
        (blocker,) = answer.blockers
        slow = scene.apps["slow"].session.client
        assert (blocker.wait, blocker.readers, blocker.daemons) == (Wait.READER, (str(slow),), ("d1",))
        assert blocker.text == f"its session is held, for a client in g does not read: {slow}"
