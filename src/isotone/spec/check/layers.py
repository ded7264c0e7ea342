"""The layers above group communication that a trace may have rows of, each with its properties and its checker.

A layer is judged only in a run that has rows of it. Whoever reads verdicts (commands, reports, Spark) takes the names
and sentences of all properties from here, so a new layer is one more line.

Implements: [DESIGN 4]. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from isotone.spec.check.corel import CorelChecker
from isotone.spec.check.corel.checker import ENTRIES as COREL_ENTRIES
from isotone.spec.check.flows import FlowChecker
from isotone.spec.check.flows.checker import ENTRIES as FLOW_ENTRIES
from isotone.spec.check.hab import HabChecker
from isotone.spec.check.hab.checker import ENTRIES as HAB_ENTRIES
from isotone.spec.check.isis import IsisChecker
from isotone.spec.check.isis.checker import ENTRIES as ISIS_ENTRIES
from isotone.spec.check.replicated import ENTRIES as REPLICATED_ENTRIES
from isotone.spec.check.replicated import ReplicatedChecker
from isotone.spec.check.synchrony import ENTRIES as SYNCHRONY_ENTRIES
from isotone.spec.check.synchrony import SynchronyChecker
from isotone.spec.check.toolkit import ENTRIES as TOOLKIT_ENTRIES
from isotone.spec.check.toolkit import ToolkitChecker
from isotone.spec.corel_properties import COREL_PROPERTIES
from isotone.spec.flows_properties import FLOW_PROPERTIES
from isotone.spec.hab_properties import HAB_PROPERTIES
from isotone.spec.isis_properties import ISIS_PROPERTIES
from isotone.spec.properties import BY_ID, Form, Property
from isotone.spec.replicated_properties import REPLICATED_PROPERTIES
from isotone.spec.synchrony_properties import SYNCHRONY_PROPERTIES
from isotone.spec.toolkit_properties import TOOLKIT_PROPERTIES
from isotone.spec.verdicts import State, Verdict
from isotone.trace.events import Entry, Row


class LayerChecker(Protocol):
    """Takes the rows of one layer of one run, each node's in their order, and judges them at the end."""

    def __len__(self) -> int:
        """How many rows it was given."""
        ...

    def feed(self, row: Row) -> None:
        """Take one row."""
        ...

    def finish(
        self, *, lossy: bool, liveness: State | None, components: tuple[tuple[str, ...], ...]
    ) -> dict[str, Verdict]:
        """A verdict for each property of the layer.

        ``lossy``: rows of the run were lost. ``liveness``: what becomes of liveness properties, None if they are
        judged. ``components``: who reached whom when the run was stable.
        """
        ...


@runtime_checkable
class TellsRecords(Protocol):
    """A layer's checker that is told where rows are missing, and tells of records that are not there."""

    def lose(self, row: Row) -> None:
        """Rows of this node are missing here."""
        ...

    def missing(self) -> set[str]:
        """Nodes that others name, and of which there is no row."""
        ...


@dataclass(frozen=True)
class Layer:
    """One layer: its name, its properties, the entries that its checker takes, and the checker."""

    name: str
    properties: tuple[Property, ...]
    entries: tuple[type[Entry], ...]
    checker: Callable[[], LayerChecker]

    def labels(self) -> tuple[str, ...]:
        """The ids under which it has verdicts."""
        return tuple(each.id for each in self.properties if each.form is not Form.DEFINITION)


LAYERS: tuple[Layer, ...] = (
    Layer("COReL", COREL_PROPERTIES, COREL_ENTRIES, CorelChecker),
    Layer("replicated objects", REPLICATED_PROPERTIES, REPLICATED_ENTRIES, ReplicatedChecker),
    Layer("flows", FLOW_PROPERTIES, FLOW_ENTRIES, FlowChecker),
    Layer("ISIS", ISIS_PROPERTIES, ISIS_ENTRIES, IsisChecker),
    Layer("ISIS toolkit", TOOLKIT_PROPERTIES, TOOLKIT_ENTRIES, ToolkitChecker),
    Layer("HAB", HAB_PROPERTIES, HAB_ENTRIES, HabChecker),
    Layer("view synchrony", SYNCHRONY_PROPERTIES, SYNCHRONY_ENTRIES, SynchronyChecker),
)

ALL_PROPERTIES: Mapping[str, Property] = {
    **BY_ID,
    **{each.id: each for layer in LAYERS for each in layer.properties},
}
"""Of group communication and of all layers, by id."""


def layer_entries() -> tuple[type[Entry], ...]:
    """Those of all layers."""
    return tuple(entry for layer in LAYERS for entry in layer.entries)
