"""From a proved program to the rules of aggregation components: client rules, regular rules, root rules.

*Client rules* compute what a node contributes, from the client's inputs and from what came down. *Regular rules* say
how each ring aggregates. *Root rules* compute decisions out of the aggregates, and which of them go down to all
nodes.

Implements: [Flows 3.2], [Flows Figure 9]. Deviations: none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from isotone.flows.operators import INITIAL, OPERATORS, Operator, Order, Type, at_most, function_for
from isotone.flows.prover import ProvedProgram, Strength, read_program
from isotone.flows.syntax import (
    GUARDED,
    Aggregation,
    Call,
    Dissemination,
    Distribution,
    Expression,
    Input,
    Name,
    Number,
    Transformation,
    uses_of,
)
from isotone.flows.typing import Site
from isotone.flows.values import Value

Values = tuple[Value | None, ...]
"""One for each regular rule, or for each flow that comes down; None for a guarded one that nobody could add to."""


class AggregateRule(msgspec.Struct, frozen=True):
    """A regular rule: this flow, by this operator; ``guarded`` with the order in which newcomers are compared."""

    flow: str
    operator: Operator
    source: Expression
    type: Type
    guarded: Order | None


class ComputeRule(msgspec.Struct, frozen=True):
    """A client or root rule. ``remembers``: the rule goes on from its own last value."""

    flow: str
    expression: Expression
    type: Type
    remembers: bool = False
    grows: bool = False  # it is assumed to, and compared with its last value


class ShareRule(msgspec.Struct, frozen=True):
    """A distribution: out of the root's flow ``source``; a node takes pairs whose number is in its ``condition``."""

    flow: str
    source: str
    condition: str  # a flow of nodes, "" for none
    known: int  # the place of the aggregate that is the union of the condition, −1 without a condition


class Rules(msgspec.Struct, frozen=True):
    """All rules of a program. ``down``: the global flows that nodes hear of."""

    program: str
    text: str
    inputs: tuple[Input, ...]
    client: tuple[ComputeRule, ...]
    regular: tuple[AggregateRule, ...]
    root: tuple[ComputeRule, ...]
    down: tuple[str, ...]
    shares: tuple[ShareRule, ...]
    outputs: tuple[str, ...]
    sources: Mapping[str, str]  # of each dissemination
    orders: Mapping[str, Order]  # of global flows that are strongly monotonic

    @property
    def guards(self) -> tuple[tuple[int, Order], ...]:
        """The places of guarded aggregates, with their orders."""
        return tuple((place, each.guarded) for place, each in enumerate(self.regular) if each.guarded is not None)


def compile_text(text: str) -> Rules:
    """The rules of a program's text."""
    return compile_program(read_program(text))


def compile_program(proved: ProvedProgram) -> Rules:
    """The rules; a `FlowError` for what rings cannot run."""
    typed = proved.typed
    inputs: list[Input] = []
    client: list[ComputeRule] = []
    regular: list[AggregateRule] = []
    root: list[ComputeRule] = []
    sources: dict[str, str] = {}
    for name in _computable(proved):
        definition = typed.definitions[name]
        match definition:
            case Input():
                inputs.append(definition)
            case Aggregation():
                regular.append(_aggregate_rule(proved, definition))
            case Transformation(expression=expression, assumed=assumed):
                remembers = isinstance(expression, Call) and expression.function == "decide"
                rule = ComputeRule(name, expression, typed.types[name], remembers, assumed)
                (client if typed.sites[name] is Site.NODES else root).append(rule)
            case Dissemination(source=source):
                sources[name] = source.name
    shares = tuple(
        _share_rule(proved, each, regular) for each in typed.definitions.values() if isinstance(each, Distribution)
    )
    outputs = tuple(each.name for each in typed.program.outputs)
    heard = _heard(proved, outputs)
    return Rules(
        typed.program.name,
        typed.program.text,
        tuple(inputs),
        tuple(client),
        tuple(regular),
        tuple(root),
        tuple(heard),
        shares,
        outputs,
        sources,
        _orders(proved),
    )


def _orders(proved: ProvedProgram) -> dict[str, Order]:
    return {
        name: proof.order
        for name, proof in proved.proofs.items()
        if proof.strength is Strength.STRONG and proof.order and proved.typed.sites[name] is Site.GLOBAL
    }


def _computable(proved: ProvedProgram) -> list[str]:
    """In such an order that, at each site, what is used is computed before. What is global reaches nodes later."""
    typed = proved.typed
    done: list[str] = []

    def visit(name: str) -> None:
        if name in done:
            return
        done.append(name)
        here = typed.sites[name]
        for use in uses_of(typed.definitions[name]):
            if typed.sites[use.name] is here:
                done.remove(name)
                visit(use.name)
                done.append(name)

    for name in typed.definitions:
        visit(name)
    return list(dict.fromkeys(done))


def _aggregate_rule(proved: ProvedProgram, definition: Aggregation) -> AggregateRule:
    typed = proved.typed
    operator = OPERATORS[definition.operator]
    guarded = GUARDED in definition.flavours or definition.condition is not None
    if guarded and operator.strong is None:
        raise typed.program.error(f"{operator.name} has no order to guard with", definition.operator_place)
    return AggregateRule(
        definition.name, operator, definition.source, typed.types[definition.name], operator.strong if guarded else None
    )


def _share_rule(proved: ProvedProgram, definition: Distribution, regular: list[AggregateRule]) -> ShareRule:
    """A ring that deals out must know what its nodes have: the union of the condition."""
    if definition.condition is None:
        return ShareRule(definition.name, definition.source.name, "", -1)
    wanted = definition.condition.name
    for place, rule in enumerate(regular):
        if rule.operator.name == "union" and isinstance(rule.source, Name) and rule.source.name == wanted:
            return ShareRule(definition.name, definition.source.name, wanted, place)
    problem = f"rings cannot deal out by {wanted} unless the program has the union of {wanted}"
    raise proved.typed.program.error(problem, definition.condition.place)


def _heard(proved: ProvedProgram, outputs: tuple[str, ...]) -> list[str]:
    """Global flows that are outputs, are disseminated, or are used at nodes."""
    typed = proved.typed
    heard = [name for name in outputs if typed.sites[name] is Site.GLOBAL]
    for name, definition in typed.definitions.items():
        uses = [use.name for use in uses_of(definition)]
        if isinstance(definition, Distribution):
            continue
        if typed.sites[name] is Site.NODES or isinstance(definition, Aggregation):
            heard += [use for use in uses if typed.sites[use] is Site.GLOBAL]
    return list(dict.fromkeys(heard))


# --- computing -----------------------------------------------------------------------------------------------------


def evaluate(expression: Expression, flows: Mapping[str, Value], node: str) -> Value:
    """The value of an expression over these flows at this node."""
    match expression:
        case Name(name):
            return flows[name]
        case Number(value):
            return value
        case Call(function, arguments):
            given = [evaluate(each, flows, node) for each in arguments]
            return call_function(function, given, node)


def call_function(name: str, given: list[Value], node: str, last: Value | None = None) -> Value:
    """Apply a function; the one that remembers gets its last value."""
    function = function_for(name, tuple(type_of(each) for each in given))
    assert function is not None, f"the type checker let {name} pass"
    if function.remembers:
        assert last is not None
        return function.apply(last, *given)  # type: ignore[no-any-return]
    if name == "self *":
        return function.apply(node, *given)  # type: ignore[no-any-return]
    return function.apply(*given)  # type: ignore[no-any-return]


def type_of(value: Value) -> Type:
    """The type of a value."""
    for each, initial in INITIAL.items():
        if type(value) is type(initial):
            return each
    raise AssertionError(value)


def contributions(rules: Rules, inputs: Mapping[str, Value], heard: Mapping[str, Value], node: str) -> Values:
    """What a node hands to its ring: one value for each regular rule, by the client rules."""
    flows: dict[str, Value] = {**_initial_heard(rules), **heard, **inputs}
    for name, source in rules.sources.items():
        flows[name] = flows[source]
    for rule in rules.client:
        flows[rule.flow] = evaluate(rule.expression, flows, node)
    return tuple(evaluate(each.source, flows, node) for each in rules.regular)


def _initial_heard(rules: Rules) -> dict[str, Value]:
    types = global_types(rules)
    return {name: INITIAL[types[name]] for name in rules.down}


def global_types(rules: Rules) -> dict[str, Type]:
    """The type of every global flow."""
    return {each.flow: each.type for each in rules.regular} | {each.flow: each.type for each in rules.root}


def initial_inputs(rules: Rules) -> dict[str, Value]:
    """What all inputs hold at the beginning."""
    return {each.name: INITIAL[each.type] for each in rules.inputs}


def decide(rules: Rules, aggregates: Sequence[Value], last: Mapping[str, Value]) -> dict[str, Value]:
    """All global flows, by the root rules, from the aggregates and from what rules with a memory said last."""
    flows: dict[str, Value] = {each.flow: value for each, value in zip(rules.regular, aggregates, strict=True)}
    for rule in rules.root:
        if rule.remembers:
            assert isinstance(rule.expression, Call)
            given = [evaluate(each, flows, "") for each in rule.expression.arguments]
            flows[rule.flow] = call_function(
                rule.expression.function, given, "", last.get(rule.flow, INITIAL[rule.type])
            )
        else:
            flows[rule.flow] = evaluate(rule.expression, flows, "")
        if rule.grows and rule.flow in last and not at_most(last[rule.flow], flows[rule.flow], Order.GROWS):
            raise AssertionError(f"{rule.flow} is assumed to grow, and fell")
    return flows


def told_rules(rules: Rules) -> list[str]:
    """The rules as lines, for people."""
    lines = [f"client   {each.flow} := {shown(each.expression)}" for each in rules.client]
    for rule in rules.regular:
        guard = f", newcomers not below it ({rule.guarded.value})" if rule.guarded else ""
        lines.append(f"regular  {rule.flow} := {rule.operator.name} of {shown(rule.source)} along the ring{guard}")
    lines += [f"root     {each.flow} := {shown(each.expression)}" for each in rules.root]
    lines += [f"down     {each} to all nodes" for each in rules.down]
    lines += [f"down     {each.source} dealt out as {each.flow}" for each in rules.shares]
    return lines


def shown(expression: Expression) -> str:
    """An expression as text."""
    match expression:
        case Name(name):
            return name
        case Number(value):
            return str(value)
        case Call("self *", (inside,)):
            return f"self * ({shown(inside)})"
        case Call(function, (left, right)) if not function.isalpha():
            return f"{shown(left)} {function} {shown(right)}"
        case Call(function, arguments):
            return f"{function}({', '.join(shown(each) for each in arguments)})"


def plain_rules(rules: Rules) -> dict[str, object]:
    """The rules as numbers and texts, for a reader who shares no code with us."""

    def plain(expression: Expression) -> object:
        match expression:
            case Name(name):
                return name
            case Number(value):
                return value
            case Call(function, arguments):
                return [function, *(plain(each) for each in arguments)]

    return {
        "program": rules.program,
        "inputs": [[each.name, each.type.value, each.order.value if each.order else ""] for each in rules.inputs],
        "client": [[each.flow, plain(each.expression)] for each in rules.client],
        "regular": [
            [
                each.flow,
                each.operator.name,
                plain(each.source),
                each.guarded.value if each.guarded else "",
                each.type.value,
            ]
            for each in rules.regular
        ],
        "root": [[each.flow, plain(each.expression), each.type.value, each.grows] for each in rules.root],
        "down": list(rules.down),
        "shares": [[each.flow, each.source, each.condition] for each in rules.shares],
        "sources": dict(rules.sources),
        "outputs": list(rules.outputs),
        "orders": {name: order.value for name, order in rules.orders.items()},
    }
