"""The caller's side of a client's session: what it may ask, and what became of what it sent."""

from __future__ import annotations

from isotone.core import boundary as b4
from isotone.core.errors import LocalProtocolError
from isotone.core.ids import ClientId
from isotone.evs.sessions.messages import JoinAsked, LeaveAsked, Welcome
from isotone.evs.sessions.notices import Dropped, SendWanted
from isotone.evs.sessions.requests import EXPIRED, NEVER, Requests
from isotone.evs.sessions.settings import ClientSettings
from isotone.evs.sessions.submission import check_bundle, check_groups, check_join, check_send, chunks
from isotone.evs.sessions.tickets import Tickets


class Asking:
    """Checks requests and puts them into the queue; errors come before anything changes."""

    def __init__(self, settings: ClientSettings) -> None:
        self.requests = Requests(settings)
        self.tickets = Tickets()
        self._settings = settings
        self._client: ClientId | None = None
        self._message_bytes_max = settings.message_bytes_max
        self._full = False

    def open(self, client: ClientId, terms: Welcome) -> None:
        """The session begins, on the daemon's terms."""
        self._client = client
        self._message_bytes_max = min(terms.message_bytes_max, self._message_bytes_max)
        self.requests.open(client, terms.credit, terms.window)

    def change(self, request: b4.Join | b4.Leave) -> None:
        """Join or leave."""
        check_join(request)
        self.requests.add_control(
            JoinAsked(request.group) if isinstance(request, b4.Join) else LeaveAsked(request.group)
        )

    def send_bundle(self, request: b4.Send) -> None:
        """Send what the caller has bundled and numbered."""
        bundle, submitted = request.bundle, self.requests.submitted
        check_bundle(
            bundle, message_bytes_max=self._message_bytes_max, bundle_bytes_max=self._settings.bundle_bytes_max
        )
        if bundle.sender != self._client or bundle.first_sequence != submitted + 1:
            expected = f"the next of {self._client} is {submitted + 1}"
            raise LocalProtocolError(f"a bundle of {bundle.sender} from {bundle.first_sequence} on; {expected}")
        groups = check_groups(bundle.groups)
        self.requests.check_room()
        self.requests.add_messages(
            bundle.service, groups, bundle.payload, bundle.lengths, bundle.types, flags=bundle.flags
        )

    def send(self, wanted: SendWanted) -> None:
        """Send messages, which are bundled and numbered here."""
        settings = self._settings
        check_send(wanted, message_bytes_max=self._message_bytes_max, queue_bytes_max=settings.queue_bytes_max)
        groups = check_groups(wanted.groups)
        self.requests.check_room()
        expires_at = NEVER if wanted.deadline_us is None else wanted.at + wanted.deadline_us
        pieces = chunks(wanted, bundle_bytes_max=settings.bundle_bytes_max, packed_bytes_max=settings.packed_bytes_max)
        for payload, lengths, types in pieces:
            self.requests.add_messages(
                wanted.service, groups, payload, lengths, types, flags=wanted.flags, expires_at=expires_at
            )

    def expire(self, at: int) -> list[Dropped]:
        """What waited too long for the daemon."""
        if at < self.requests.first_expiry:
            return []
        dropped = [Dropped(first, count, EXPIRED) for first, count in self.requests.expire(at)]
        for each in dropped:
            self.tickets.drop(each.first, each.count)
        return dropped

    def became_roomy(self) -> bool:
        """Whether there is room for half a queue again, for the first time since there was none."""
        room = self.requests.room
        if not room:
            self._full = True
        roomy = self._full and 2 * room >= self._settings.queue_bytes_max
        if roomy:
            self._full = False
        return roomy
