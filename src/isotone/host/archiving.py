"""Who writes the archive of a replicated log: one server writes, and the log is cut only where it is archived.

Implements: [DESIGN 5], tables and streams. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Callable

from isotone.host.replica_log import ReplicaLog
from isotone.replicated.archive.places import below
from isotone.replicated.archive.store import Archive
from isotone.replicated.archive.writer import ArchiveSource, ArchiveWriter
from isotone.replicated.database.change_log import FOLDER


def archive_writers(
    replicated: ReplicaLog, uri: str, credential_file: str = "", *, changes: ArchiveSource | None = None
) -> list[ArchiveWriter]:
    """Of the log, and of the changes of its databases, if it has an archive.

    The first by name of the servers in the primary component writes; while it is not there the next one does. If two
    of them write for a moment, they write the same. What keeps an archive from going on stands in the server's status.
    """
    if not uri:
        return []
    places: dict[str, ArchiveSource] = {uri: replicated}
    if changes is not None:
        places[below(uri, FOLDER)] = changes
    reached, problems = dict.fromkeys(places, 0), dict.fromkeys(places, "")
    replicated.archived = 0

    def may_write() -> bool:
        here = replicated.standing.servers
        return replicated.is_primary and bool(here) and min(here) == replicated.settings.server

    def hears(place: str) -> Callable[[int], None]:
        def hear(position: int) -> None:
            reached[place] = position
            replicated.archived = min(reached.values())

        return hear

    def hears_of_trouble(place: str) -> Callable[[str], None]:
        def hear(problem: str) -> None:
            problems[place] = problem
            replicated.archive_problem = "; ".join(dict.fromkeys(filter(None, problems.values())))

        return hear

    return [
        ArchiveWriter(
            source,
            Archive(place, credential_file),
            may_write=may_write,
            on_archived=hears(place),
            on_problem=hears_of_trouble(place),
        )
        for place, source in places.items()
    ]
