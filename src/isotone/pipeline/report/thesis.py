"""What [Spread] states in its tables and beside its figures, as numbers; and what its experiments were.

Implements: [Spread 3.4, 4.4, 5.2]. Deviations: the thesis measured round trips on the Internet of its day; ours is one
way in virtual time, with the parameters that each result names. Compare shapes, not heights.
"""

from __future__ import annotations

from typing import NamedTuple

TABLE_4_1 = {
    "maeeast": (487.32, 559.79),
    "cnds": (666.94, 560.71),
    "rutgers": (184.99, 568.34),
    "ucsb": (328.81, 578.84),
}
"""Kbit/s of the slowest receiver by source, TCP: fanout, tree."""
TABLE_4_2 = {
    "ping": (103.3, 104.1, 106.8),
    "tcp": (108.946, 136.277, 311.649),
    "hop": (107.798, 108.493, 110.944),
}
"""Round trips in ms, Mae East to UCSB: least, mean, most."""
TABLE_5_1 = (
    ("best case: all send", "1 D"),
    ("high overhead", "2 D"),
    ("balanced", "2 D + delta"),
    ("no overhead", "unbounded"),
)
"""Latency of AGREED messages in diameters."""
FIGURE_5_4_MS = {"RELIABLE": 93.0, "FIFO": 93.0, "SAFE": 270.0}
"""Latencies that the text states, on a chain with a diameter of 90 ms and a delta of 100 ms."""
DIAMETER_5_4_MS = 90.0


class Exhibit(NamedTuple):
    """A table or figure of the thesis: name, title, the file of our result, the command for it, what was said."""

    name: str
    title: str
    file: str
    command: str
    said: str


EXHIBITS = (
    Exhibit("Figure 3.4", "latency by number of groups", "figure-3.4", "isotone bench lan --exhibits results",
            "The text gives no numbers: two daemons on a 100 Mbit/s Ethernet, ten messages a point."),
    Exhibit("Figure 3.5", "latency by number of groups and connections", "figure-3.5",
            "isotone bench lan --exhibits results",
            "The thesis reports growth close to linear with the connections, because of poll."),
    Exhibit("Table 4.1", "throughput by routing", "figure-4.1", "isotone sim figure spread-table-4.1",
            "Kilobits a second at the slowest receiver. The thesis measured with TCP links."),
    Exhibit("Table 4.2", "latency of one link", "figure-4.2", "isotone sim figure spread-table-4.2",
            "The thesis' times are round trips between Mae East and UCSB; ours are one way."),
    Exhibit("Figure 4.5", "latency under load, TCP and Hop", "figure-4.5", "isotone sim figure spread-figure-4.5",
            "The thesis: Hop stays almost constant from 0 to 400 kbit/s of load; TCP grows to almost 1.5 s."),
    Exhibit("Table 5.1", "latency of AGREED messages", "figure-5.1", "isotone sim figure spread-table-5.1",
            "In diameters of the network (D)."),
    Exhibit("Figure 5.4", "latency by service under load", "figure-5.4", "isotone sim figure spread-figure-5.4",
            "The thesis: around 93 ms for RELIABLE and FIFO, 270 ms for SAFE, with a diameter of 90 ms."),
)  # fmt: skip
