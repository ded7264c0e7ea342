"""Where the token is, as one member knows: at rest here, handed on and not heard of since, or elsewhere.

```
            visited                      hand_to
 ELSEWHERE ────────▶ (a visit) ──▶ PASSED ──────▶ sign of life, next visit ──▶ ELSEWHERE
     │ wanted            │ rest                    no sign: again, then the ring failed
     ▼                   ▼
   asking            AT REST ──▶ asked for, or wanted here: the next visit
```
Implements: [Spread 4.1], loss of the token. Deviations: D-rest and D-linger as in
`isotone.evs.links.ring.ring`.
"""

from __future__ import annotations

import msgspec

from isotone.core.contract import Action, CancelTimer, SetTimer
from isotone.evs.links.ring.dispatch import Dispatch
from isotone.evs.links.ring.events import LINGER_TIMER, REQUEST_TIMER, RESTING, TOKEN_TIMER
from isotone.evs.links.ring.settings import RingSettings
from isotone.evs.links.ring.token import PacketKind, Token


class TokenLost(Exception):
    """The ring failed; the text says why. Never leaves the ring."""


class Custody:
    """One member's knowledge of the token between its visits."""

    __slots__ = (
        "_asked",
        "_dispatch",
        "_lingers",
        "_passed",
        "_resting",
        "_retries",
        "_settings",
        "at_rest",
        "is_asking",
        "visit",
    )

    def __init__(self, dispatch: Dispatch, settings: RingSettings) -> None:
        self.visit = 0  # of the last token seen
        self.at_rest: Token | None = None  # here
        self._dispatch, self._settings = dispatch, settings
        self._passed: tuple[Token, int] | None = None  # sent to whom, no sign of life since
        self._retries = 0
        self._resting = 0  # the last visit after which somebody announced that the token rests
        self._lingers = False  # the token, at rest here after somebody used it
        self.is_asking = False
        self._asked = 0  # times since the last visit

    # --- it is here ------------------------------------------------------------------------------------------------

    def visited(self, token: Token) -> None:
        """The token came, or it rested here and is put to use."""
        self.visit = token.visit + 1
        self.at_rest, self._passed, self._retries = None, None, 0

    def keep(self, token: Token) -> list[Action]:
        """It rests here: whoever passed it on waits for a sign of life, whoever wants it should ask at once."""
        self.at_rest = token
        seen = self._dispatch.word_to_all(PacketKind.SEEN, self.visit, RESTING)
        return [*self._stop_asking(), CancelTimer(TOKEN_TIMER), *seen]

    def linger(self, token: Token, *, announce: bool) -> list[Action]:
        """It was put to use, and stays a little: D-linger. That is a jump, since nobody else was asked."""
        kept = msgspec.structs.replace(token, jumped_at=token.visit + 1)
        actions = self.keep(kept) if announce else self._stop_asking()
        self.at_rest = kept
        if not self._lingers:
            self._lingers = True
            actions.append(SetTimer(LINGER_TIMER, self._settings.linger_us))
        return actions

    def on_linger_timer(self, successor: int) -> list[Action]:
        """It stayed long enough."""
        lingered, self._lingers = self._lingers, False
        return self._hand_to(successor, self.at_rest) if lingered and self.at_rest is not None else []

    def pass_on(self, member: int, token: Token) -> list[Action]:
        """After a visit."""
        return [*self._stop_asking(), *self._hand_to(member, token)]

    def _hand_to(self, member: int, token: Token) -> list[Action]:
        self.at_rest, self._passed = None, (token, member)
        handed = [self._dispatch.token_to(member, token), SetTimer(TOKEN_TIMER, self._settings.token_retry_us)]
        if self._lingers:
            self._lingers = False
            return [*handed, CancelTimer(LINGER_TIMER)]
        return handed

    def on_request(self, sender: int, successor: int) -> list[Action]:
        """A resting token goes to whoever asks: D-rest."""
        token = self.at_rest
        if token is None:
            return []
        jumped_at = token.jumped_at if sender == successor else token.visit + 1
        return self._hand_to(sender, msgspec.structs.replace(token, calm=0, jumped_at=jumped_at))

    # --- it was passed on ------------------------------------------------------------------------------------------

    def on_seen(self, visit: int, flags: int) -> list[Action]:
        """Somebody says that this token came."""
        actions: list[Action] = []
        if flags & RESTING:
            self._resting = max(self._resting, visit)
            if self.is_asking and self._resting >= self.visit:
                actions += self._ask()  # at once, and not when the timer thinks of it
        if self._passed is not None and visit >= self._passed[0].visit:
            self._passed, self._retries = None, 0
            actions.append(CancelTimer(TOKEN_TIMER))
        return actions

    def data_came(self, top: int) -> None:
        """The highest link sequence known here. Somebody sends behind our token: it arrived."""
        if self._passed is not None and top > self._passed[0].link_sequence:
            self._passed, self._retries = None, 0

    def on_token_timer(self) -> list[Action]:
        """No sign of life: send it again."""
        if self._passed is None:
            return []
        token, member = self._passed
        self._retries += 1
        if self._retries > self._settings.token_retries_max:
            raise TokenLost(f"the token was lost on its way to daemon {member}")
        return self._hand_to(member, token)

    # --- it is wanted ----------------------------------------------------------------------------------------------

    def want(self) -> list[Action]:
        """Ask for it if it rests elsewhere; else it is on its way."""
        if self.is_asking:
            return []
        self.is_asking = True
        if self._resting >= self.visit:
            return self._ask()
        return [SetTimer(REQUEST_TIMER, self._settings.request_retry_us)]

    def on_request_timer(self) -> list[Action]:
        """It did not come."""
        return self._ask() if self.is_asking else []

    def _ask(self) -> list[Action]:
        """Whoever has the token may be gone without anybody else noticing: asking has an end."""
        self._asked += 1
        if self._asked > self._settings.requests_unanswered_max:
            raise TokenLost(f"the token did not come after {self._asked - 1} requests")
        request = self._dispatch.word_to_all(PacketKind.REQUEST, self.visit)
        return [*request, SetTimer(REQUEST_TIMER, self._settings.request_retry_us)]

    def _stop_asking(self) -> list[Action]:
        self._asked = 0
        if not self.is_asking:
            return []
        self.is_asking = False
        return [CancelTimer(REQUEST_TIMER)]

    def abandon(self) -> list[Action]:
        """The ring failed."""
        return [*self._stop_asking(), CancelTimer(TOKEN_TIMER), CancelTimer(LINGER_TIMER)]
