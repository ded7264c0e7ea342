"""Who is told of the life of a simulated world: the EVS oracle's driver, displays, statistics."""

from __future__ import annotations

from isotone.core.ids import DaemonId


class Observer:
    """Override what you want to hear; called in the order of things, before any automaton reacts."""

    def on_start(self, daemon: DaemonId) -> None:
        """An incarnation began; its automata exist and have not been told yet."""

    def on_crash(self, daemon: DaemonId) -> None:
        """An incarnation ended, by a crash or in order."""

    def on_pause(self, daemon: DaemonId) -> None:
        """A process stands still."""

    def on_resume(self, daemon: DaemonId) -> None:
        """A process goes on; what waited for it is handed out after this."""

    def on_connectivity(self, components: tuple[tuple[str, ...], ...]) -> None:
        """These sets of living nodes are connected both ways from now on; also after a start or an end."""
