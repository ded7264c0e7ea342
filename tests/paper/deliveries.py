"""The statements of [Spread 6.2] and [Spread 6.5] about messages; `theorems` has the others, and how they answer."""

from __future__ import annotations

from isotone.core.services import Service
from tests.paper.history import Delivery, History, Message, Stay, ViewId, name_of
from tests.paper.theorems import AGREED, CAUSAL, FIFO, RELIABLE, Finding, is_below


def no_duplication(history: History) -> Finding:
    """No process delivers a message twice."""
    finding = Finding()
    for process, heard in history.heard.items():
        seen: set[Message] = set()
        for each in heard:
            finding.expect(each.message not in seen, process, each.message)
            seen.add(each.message)
    return finding


def delivery_integrity(history: History) -> Finding:
    """A delivery is the result of a send before it."""
    finding = Finding()
    for process, heard in history.heard.items():
        for each in heard:
            send = history.sends.get(each.message)
            sent = send is not None and send.service is each.service and send.at <= each.at
            if send is not None and each.message[0] == process:
                sent = sent and send.place < each.place
            finding.expect(sent, process, each.message)
    return finding


def self_delivery(history: History) -> Finding:
    """A process delivers what it sends in a view, unless it crashes, disconnects or leaves."""
    finding = Finding()
    for message, send in history.sends.items():
        sender = message[0]
        if send.stay is None or sender in history.quits or send.service not in RELIABLE:
            continue
        if send.groups and not _is_to(history, send.groups):
            continue
        finding.expect(any(each.message == message for each in history.heard.get(sender, ())), message)
    return finding


def same_view_delivery(
    history: History, services: tuple[Service, ...] = RELIABLE, *, after_signals: bool = True
) -> Finding:
    """All who deliver a message deliver it in the same view."""
    finding = Finding()
    first: dict[Message, Stay] = {}
    for stay in history.stays:
        for each in stay.deliveries:
            if each.service not in services or (each.after_signal and not after_signals):
                continue
            before = first.setdefault(each.message, stay)
            if before is not stay:
                finding.expect(before.view == stay.view, each.message, before.process, stay.process)
    return finding


def virtual_synchrony(history: History, services: tuple[Service, ...] = RELIABLE) -> Finding:
    """Who is together in a view delivers the same messages in it."""
    finding = Finding()
    for one, other in history.together():
        mine, others = one.messages(*services), other.messages(*services)
        for message in sorted(mine | others):
            finding.expect(message in mine and message in others, one.process, other.process, one.view, message)
    return finding


def sane_view_delivery_a(history: History, services: tuple[Service, ...] = RELIABLE) -> Finding:
    """No message is delivered in a view earlier than that in which it was sent."""
    finding = Finding()
    for stay in history.stays:
        for each in stay.deliveries:
            send = history.sends[each.message]
            if each.service in services and send.stay is not None:
                later = not is_below(stay.view, send.stay.view)
                finding.expect(later, each.message, "of", send.stay.view, "in", stay.view, "at", stay.process)
    return finding


def sane_view_delivery_b(history: History) -> Finding:
    """Of a process that ended and came back in v, messages from before are delivered before v."""
    finding = Finding()
    firsts = [stay for stay in history.stays if stay.previous is None]
    for stay in history.stays:
        for each in stay.deliveries:
            sender = each.message[0]
            for back in firsts:
                if name_of(back.process) == name_of(sender) and back.process > sender:
                    finding.expect(is_below(stay.view, back.view), each.message, "in", stay.view, "after", back.view)
    return finding


def fifo(history: History) -> Finding:
    """A FIFO message is delivered after everything that its sender sent before."""
    finding = Finding()
    for process, heard in history.heard.items():
        place = _places(heard)
        for each in heard:
            if each.service in FIFO:
                for before in history.sends[each.message].known:
                    if before[0] == each.message[0] and before in place and _is_reliable(history, before):
                        finding.expect(place[before] < place[each.message], process, before, each.message)
    return finding


def causal(history: History, services: tuple[Service, ...] = CAUSAL) -> Finding:
    """A causal message is delivered after everything that causally precedes it."""
    finding = Finding()
    pasts = {message: history.past(message) for message, send in history.sends.items() if send.service in services}
    for process, heard in history.heard.items():
        place = _places(heard)
        for each in heard:
            for before in pasts.get(each.message, ()):
                if before in place and _is_reliable(history, before):
                    finding.expect(place[before] < place[each.message], process, before, each.message)
    return finding


def agreed_b(history: History, services: tuple[Service, ...] = AGREED) -> Finding:
    """After an agreed message nothing with a lower ord follows, and all agree on the order."""
    finding = Finding()
    for process, heard in history.heard.items():
        highest = (0, "")
        for each in heard:
            if each.service in RELIABLE:
                finding.expect(each.ord > highest, process, each.message, each.ord, highest)
            if each.service in services:
                highest = max(highest, each.ord)
    return finding


def agreed_c(history: History, services: tuple[Service, ...] = RELIABLE) -> Finding:
    """Before the signal, an agreed message leaves no hole below it of what anybody delivered in that view."""
    finding = Finding()
    for stay in history.stays:
        agreed = [each.ord for each in stay.deliveries if each.service in AGREED and not each.after_signal]
        if not agreed:
            continue
        mine = stay.messages()
        for message, order in _delivered_in(history, stay.view, services):
            if order < max(agreed):
                finding.expect(message in mine, stay.process, "lacks", message, "in", stay.view)
    return finding


def agreed_d(history: History, services: tuple[Service, ...] = RELIABLE) -> Finding:
    """After the signal, none of what was sent by its next transitional set."""
    finding = Finding()
    for stay in history.stays:
        agreed = [each.ord for each in stay.deliveries if each.service in AGREED and each.after_signal]
        if not agreed or stay.next is None:
            continue
        mine = stay.messages()
        for message, order in _delivered_in(history, stay.view, services):
            if order < max(agreed) and message[0] in stay.next.transitional:
                finding.expect(message in mine, stay.process, "lacks", message, "in", stay.view)
    return finding


def safe_b(history: History, *, in_that_view: bool = True) -> Finding:
    """A safe message before the signal is delivered by every member of the view, unless it ends."""
    finding = Finding()
    for stay in history.stays:
        for each in stay.deliveries:
            if each.service is not Service.SAFE or each.after_signal:
                continue
            for member in stay.members:
                if in_that_view:
                    there = [other for other in history.of(member) if other.view == stay.view]
                    owes = bool(there) and not there[0].ended
                    has = bool(there) and each.message in there[0].messages()
                else:
                    owes = member not in history.quits
                    has = any(heard.message == each.message for heard in history.heard.get(member, ()))
                if owes:
                    finding.expect(has, member, "lacks safe", each.message, "of", stay.view)
    return finding


def safe_c(history: History) -> Finding:
    """A safe message after the signal is delivered by the members of the next transitional set, unless they end."""
    finding = Finding()
    for stay in history.stays:
        for each in stay.deliveries:
            if each.service is Service.SAFE and each.after_signal and stay.next is not None:
                for member in stay.next.transitional:
                    for other in history.of(member):
                        if other.view == stay.view and not other.ended:
                            has = each.message in other.messages()
                            finding.expect(has, member, "lacks safe", each.message, "of", stay.view)
    return finding


# --- how the statements look at a history --------------------------------------------------------------------------


def _is_reliable(history: History, message: Message) -> bool:
    return history.sends[message].service in RELIABLE


def _is_to(history: History, groups: tuple[str, ...]) -> bool:
    return any(history.group == group for group in groups)


def _places(heard: list[Delivery]) -> dict[Message, int]:
    return {each.message: place for place, each in enumerate(heard)}


def _delivered_in(
    history: History, view: ViewId, services: tuple[Service, ...]
) -> set[tuple[Message, tuple[int, str]]]:
    stays = [stay for stay in history.stays if stay.view == view]
    return {(each.message, each.ord) for stay in stays for each in stay.deliveries if each.service in services}
