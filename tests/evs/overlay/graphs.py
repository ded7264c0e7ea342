"""Small random topologies for tests of the overlay."""

from __future__ import annotations

from hypothesis import strategies as st

from isotone.evs.overlay.topology import WEIGHT_MAX, Link, Site, Topology, make_link, make_site, make_topology

NAMES = "abcdef"
WEIGHTS = st.one_of(st.integers(0, 3), st.sampled_from([1, 1_000, WEIGHT_MAX]))


def sites_named(names: str) -> list[Site]:
    """One site for each letter, with two daemons."""
    return [make_site(name, [f"{name}1", f"{name}2"]) for name in names]


def topology(links: str, names: str = "") -> Topology:
    """From text such as ``ab1 bc20``: the links with their weights; ``names`` adds sites without links."""
    found = [make_link(word[0], word[1], int(word[2:] or 1)) for word in links.split()]
    letters = sorted({*names, *(end for link in found for end in (link.a, link.b))})
    return make_topology(sites_named("".join(letters)), found)


@st.composite
def parts(draw: st.DrawFn) -> tuple[list[Site], list[Link]]:
    """Sites and links, not yet joined, perhaps disconnected."""
    names = NAMES[: draw(st.integers(1, len(NAMES)))]
    pairs = [(a, b) for a in names for b in names if a < b]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    return sites_named(names), [make_link(a, b, draw(WEIGHTS)) for a, b in chosen]


def topologies() -> st.SearchStrategy[Topology]:
    """Topologies of up to six sites."""
    return parts().map(lambda both: make_topology(*both))
