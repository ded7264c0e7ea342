"""Programs of flows in Python: a class whose members are inputs, and functions that say how flows are made.

```python
@flow_program
class Phases:
    L = Input("int")

    @aggregate("min", "in-order", "guarded", "monotonic")
    def lowest(L): ...

    @transform
    def N(lowest):
        return lowest + 1

    outputs = ("N",)
```

Parameters name the flows that a function uses. A body is run once, on expressions instead of values; what it returns is
the definition. The result is the same `Rules` as of a text, by the same checks.

Implements: [Flows 2.2]. Deviations: none.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from isotone.core.errors import InputError
from isotone.flows.compiler import Rules, compile_text


class Formula:
    """A part of a definition, as text of the language."""

    def __init__(self, text: str) -> None:
        self.text = text

    def _with(self, sign: str, other: Formula | int) -> Formula:
        return Formula(f"({self.text} {sign} {other.text if isinstance(other, Formula) else other})")

    def __add__(self, other: Formula | int) -> Formula:
        return self._with("+", other)

    def __sub__(self, other: Formula | int) -> Formula:
        return self._with("-", other)

    def __or__(self, other: Formula) -> Formula:
        return self._with("\\/", other)

    def __and__(self, other: Formula) -> Formula:
        return self._with("/\\", other)


def paired(numbers: Formula) -> Formula:
    """This node with each of the numbers: ``self * numbers``."""
    return Formula(f"(self * {numbers.text})")


def call(function: str, *arguments: Formula | int) -> Formula:
    """A function of the language, such as ``decided``."""
    return Formula(f"{function}({', '.join(str(a) if isinstance(a, int) else a.text for a in arguments)})")


@dataclass(frozen=True)
class Input:
    """An input: its type, and ``grows``, ``falls`` or ``free``."""

    type: str
    order: str = "grows"


@dataclass(frozen=True)
class _Definition:
    function: Callable[..., Any]
    write: Callable[[str, list[str], Any], str]


def aggregate(operator: str, *flavours: str) -> Callable[[Callable[..., Any]], Any]:
    """One value out of those of all nodes: of the flow that the parameter names, or of what the body returns."""

    def write(name: str, parameters: list[str], body: Any) -> str:
        source = body.text if isinstance(body, Formula) else parameters[0]
        told = f" [{', '.join(flavours)}]" if flavours else ""
        return f"{name} = {operator} {source}{told}"

    return lambda function: _Definition(function, write)


def transform(function: Callable[..., Any]) -> Any:
    """What the body returns."""
    return _Definition(function, lambda name, parameters, body: f"{name} = {body.text}")


def assumed(function: Callable[..., Any]) -> Any:
    """What the body returns; believed to grow, and checked when it runs."""
    return _Definition(function, lambda name, parameters, body: f"{name} = {body.text} assumed")


def disseminate(function: Callable[..., Any]) -> Any:
    """The flow that the parameter names, to all nodes."""
    return _Definition(function, lambda name, parameters, body: f"{name} = disseminate {parameters[0]}")


def distribute(function: Callable[..., Any]) -> Any:
    """The flow that the first parameter names, dealt out; to whom has the number in the second."""

    def write(name: str, parameters: list[str], body: Any) -> str:
        where = f" where {name}|2 <= {parameters[1]}" if len(parameters) > 1 else ""
        return f"{name} = distribute {parameters[0]}{where}"

    return _Definition(function, write)


def program_text(described: type) -> str:
    """The class as text of the language."""
    lines = [f"program {described.__name__.lower()}"]
    for name, member in described.__dict__.items():
        if isinstance(member, Input):
            lines.append(f"input {name} : {member.type} {member.order}")
        elif isinstance(member, _Definition):
            parameters = list(inspect.signature(member.function).parameters)
            if not parameters:
                raise InputError(f"{name} uses no flow: its parameters name those that it uses")
            lines.append(member.write(name, parameters, member.function(*map(Formula, parameters))))
    outputs = described.__dict__.get("outputs", ())
    return "\n".join([*lines, f"output {', '.join(outputs)}", ""])


def flow_program(described: type) -> Rules:
    """The decorator: the class becomes the rules of its program, or a `FlowError` says what is wrong."""
    return compile_text(program_text(described))
