"""What must hold of the daemons of one view that ended, by what they delivered; each is named after its property."""

from __future__ import annotations

from itertools import combinations

from isotone.core.services import Service
from isotone.evs.ordering.units import Unit
from tests.evs.ordering.ended_view import Id, Member, World, id_of


def violations(world: World) -> set[str]:
    """The names of what does not hold."""
    installed = [member for member in world.members if member.has_installed]
    found = {name for member in installed for name in alone(world, member)}
    for one, other in combinations(installed, 2):
        found |= pair(world, one, other) | pair(world, other, one)
    return found


def alone(world: World, member: Member) -> set[str]:
    found: set[str] = set()
    ids = member.ids
    if len(set(ids)) < len(ids):
        found.add("2.5 duplication")
    if any(world.units[id_of(unit)] != unit for unit in member.log):
        found.add("2.6 integrity")
    if any(unit.daemon == member.index and me not in ids for me, unit in world.units.items()):
        found.add("2.15 self delivery")
    return found | orders(world, member)


def orders(world: World, member: Member) -> set[str]:
    found: set[str] = set()
    highest = (0, 0)
    place = {each: index for index, each in enumerate(member.ids)}
    for unit in member.log:
        me = id_of(unit)
        if unit.position < highest:
            found.add("2.13.2 agreed order")
        if unit.service.is_agreed:
            highest = max(highest, unit.position)
        if unit.service.is_fifo:
            mine = [each for each in world.past[me] if world.session[each] == world.session[me]]
            if any(place.get(each, -1) > place[me] for each in mine):
                found.add("2.11.2 FIFO")
        if unit.service.is_causal and any(place.get(each, -1) > place[me] for each in causes(world, me)):
            found.add("2.12.2 causal")
    return found


def causes(world: World, me: Id) -> set[Id]:
    seen: set[Id] = set()
    stack = [me]
    while stack:
        for each in world.past[stack.pop()]:
            if each not in seen:
                seen.add(each)
                stack.append(each)
    return seen


def pair(world: World, one: Member, other: Member) -> set[str]:
    found: set[str] = set()
    theirs = set(other.ids)
    owed = [unit for unit in one.log if other.site in world.wanted[id_of(unit)]]
    if one.together == other.together:
        if any(id_of(unit) not in theirs for unit in owed):
            found.add("2.7 virtual synchrony")
        if before(world, one, other.site) != before(world, other, one.site):
            found.add("2.8.2 signals together")
    for place, unit in enumerate(one.log):
        if unit.service is Service.SAFE and other.site in world.wanted[id_of(unit)] and id_of(unit) not in theirs:
            if place < one.before:
                found.add("2.14.2 safe before the signal")
            elif other.index in one.together:
                found.add("2.14.3 safe after the signal")
    if one.together == other.together:
        split = sides(one.log) != sides(other.log) and not world.prunes
        split = split or differ(sides(one.log), sides(other.log))
    else:
        split = differ(sides(one.log[: one.before]), sides(other.log[: other.before]))
    if split:
        found.add("2.18 one side of a cut")
    return found | holes(world, one, other)


def sides(log: list[Unit]) -> dict[tuple[Id, Id], bool]:
    """Of each cut and each unit below AGREED in it, whether the unit stands behind the cut."""
    place = {id_of(unit): index for index, unit in enumerate(log)}
    cuts = [id_of(unit) for unit in log if unit.is_cut]
    weak = [id_of(unit) for unit in log if not unit.service.is_agreed]
    return {(cut, each): place[each] > place[cut] for cut in cuts for each in weak}


def differ(one: dict[tuple[Id, Id], bool], other: dict[tuple[Id, Id], bool]) -> bool:
    """Whether both have a cut and a unit that stand otherwise."""
    return any(one[each] is not other[each] for each in one.keys() & other.keys())


def before(world: World, member: Member, site: int) -> set[Id]:
    """Agreed before the signal, of what is wanted at a site too."""
    agreed = [unit for unit in member.log[: member.before] if unit.service.is_agreed]
    return {id_of(unit) for unit in agreed if {site, member.site} <= world.wanted[id_of(unit)]}


def holes(world: World, one: Member, other: Member) -> set[str]:
    """What the other delivered and this one did not, though it delivered something agreed of a higher stamp."""
    mine = set(one.ids)
    top_before = top(one.log[: one.before])
    top_after = top(one.log[one.before :])
    found = set()
    for unit in other.log:
        if id_of(unit) in mine or one.site not in world.wanted[id_of(unit)]:
            continue
        if unit.position < top_before and (unit.service.is_agreed or not world.prunes):
            found.add("2.13.3 no holes before the signal")
        if unit.position < top_after and unit.daemon in one.together:
            found.add("2.13.4 no holes of one's own after it")
    return found


def top(units: list[Unit]) -> tuple[int, int]:
    return max((unit.position for unit in units if unit.service.is_agreed), default=(0, 0))
