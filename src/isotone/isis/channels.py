"""The intersite layer: ordered, lossless channels between two incarnations of sites, by windows and acknowledgements.

B4 loses nothing while both sites are together; what it loses when they part for a moment is sent again. A message is
*sent* when it is acknowledged, or when its destination is no longer in the site view.

Implements: [ISIS 4.1], send, status, the input filter. Deviations: D-hold (a message waits until its receiver is in
the site view of its sender, and knows those of other clusters that its sender knew: so all protocols meet each other in
the same view).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from isotone.isis.settings import WINDOW_MAX
from isotone.isis.wire import Body, Frame, Hello, Neighbours

Token = tuple[str, str]
"""Names what was sent, for `Channels.sent`: whose it is, and which."""
Numbers = tuple[int, ...]
"""Of the last site view of each cluster, as a site knows them."""


@dataclass
class Channel:
    """To and from one incarnation."""

    peer: str
    queue: deque[tuple[int, Body, Token | None]] = field(default_factory=deque)  # not acknowledged, by sequence
    last: int = 0  # the sequence given last
    transmitted: int = 0  # sent up to here, since the last repetition
    acknowledged: int = 0
    received: int = 0  # taken in up to here
    held: deque[tuple[Numbers, Body]] = field(default_factory=deque)  # arrived, of later site views
    told: int = 0  # what the peer said last that it has
    owes: bool = False  # an acknowledgement


@dataclass
class Channels:
    """All channels of one incarnation."""

    me: str
    views: Numbers = ()
    peers: dict[str, Channel] = field(default_factory=dict)
    sent: deque[tuple[str, Token]] = field(default_factory=deque)  # (site, token) whose status has become *sent*
    inbox: deque[tuple[str, Body]] = field(default_factory=deque)  # ready to be handled, own messages too

    @property
    def backlog(self) -> int:
        """The longest queue."""
        return max((len(each.queue) for each in self.peers.values()), default=0)

    def send(self, site: str, body: Body, token: Token | None = None) -> None:
        """To one site; to oneself it is there at once. To a site that is not in the view it counts as sent."""
        channel = self.peers.get(site)
        if site == self.me:
            self.inbox.append((site, body))
        elif channel is not None:
            channel.last += 1
            channel.queue.append((channel.last, body, token))
            return
        if token is not None:
            self.sent.append((site, token))

    def enter_view(self, members: tuple[str, ...], views: Numbers) -> None:
        """Open channels to new members, end those to the failed, and take in what waited for this view."""
        self.views = views
        for site in sorted(set(self.peers) - set(members)):
            for _, _, token in self.peers.pop(site).queue:
                if token is not None:
                    self.sent.append((site, token))
        for site in members:
            if site != self.me and site not in self.peers:
                self.peers[site] = Channel(site)
        for channel in self.peers.values():
            self._take_held(channel)

    def receive(self, frame: Frame) -> None:
        """A frame from a member of the view."""
        channel = self.peers.get(frame.source)
        if channel is None:
            return
        self._acknowledge(channel, frame.received)
        if frame.sequence == 0 or frame.body is None:
            if isinstance(frame.body, Hello | Neighbours):
                self._on_hello(channel, frame.received)
            return
        channel.owes = True
        if frame.sequence == channel.received + len(channel.held) + 1 and len(channel.held) < WINDOW_MAX:
            channel.held.append((frame.views, frame.body))  # type: ignore[arg-type]
            self._take_held(channel)

    def _take_held(self, channel: Channel) -> None:
        while channel.held and all(theirs <= mine for theirs, mine in zip(channel.held[0][0], self.views)):
            channel.received += 1
            self.inbox.append((channel.peer, channel.held.popleft()[1]))

    def _acknowledge(self, channel: Channel, received: int) -> None:
        while channel.queue and channel.queue[0][0] <= received:
            _, _, token = channel.queue.popleft()
            if token is not None:
                self.sent.append((channel.peer, token))
        channel.acknowledged = max(channel.acknowledged, min(received, channel.last))
        channel.transmitted = max(channel.transmitted, channel.acknowledged)

    def _on_hello(self, channel: Channel, received: int) -> None:
        """Nothing came on between two hellos: what is under way was lost."""
        if received == channel.told and channel.transmitted > received:
            channel.transmitted = channel.acknowledged
        channel.told = received

    def pump(self) -> list[Frame]:
        """What the windows let go, and acknowledgements that nothing carries."""
        frames = []
        for channel in self.peers.values():
            for sequence, body, _ in channel.queue:
                if channel.transmitted < sequence <= channel.acknowledged + WINDOW_MAX:
                    frames.append(Frame(self.me, channel.peer, sequence, channel.received, self.views, body))
                    channel.transmitted = sequence
                    channel.owes = False
                elif sequence > channel.acknowledged + WINDOW_MAX:
                    break
            if channel.owes:
                frames.append(Frame(self.me, channel.peer, 0, channel.received, self.views, None))
                channel.owes = False
        return frames

    @property
    def idle(self) -> bool:
        """Whether everything is acknowledged and handled."""
        return not self.inbox and not self.sent and not any(each.queue or each.held for each in self.peers.values())
