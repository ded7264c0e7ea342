"""From text to a `Program`. One statement stands on a line, or several with ``;`` between; ``#`` begins a comment.

```
program phases
input L : int grows
L' = min L [in-order, guarded, monotonic]
N  = L' + 1
output N
```

Implements: the notation of [Flows Figure 3] and [Flows 4] in ASCII. Deviations: Dw2 the paper gives no grammar; ours is
in ``docs/protocols/flows.md``.
"""

from __future__ import annotations

import re

import msgspec

from isotone.flows.operators import OPERATORS, Order, Type, function_names
from isotone.flows.syntax import (
    FLAVOURS,
    Aggregation,
    Call,
    Definition,
    Dissemination,
    Distribution,
    Expression,
    FlowError,
    Input,
    Name,
    Number,
    Place,
    Program,
    Transformation,
)

TEXT_MAX = 20_000
DEPTH_MAX = 20
_LEXEME = re.compile(
    r"(?P<space>[ \t\r]+|#[^\n]*)|(?P<end>\n|;)|(?P<number>\d+)|(?P<name>[A-Za-z_][\w]*(?:-order)?'*)"
    r"|(?P<sign>\|2|<=|/\\|\\/|[][=:,()+*\\-])"
)
_SIGNS = {each.sign: each.name for each in OPERATORS.values() if each.sign}
_RESERVED = {"program", "input", "output", "global", "where", "assumed", "disseminate", "distribute", "self"} | {
    *OPERATORS
}


class _Lexeme(msgspec.Struct, frozen=True):
    kind: str  # name, number, sign, end
    text: str
    place: Place


def parse(text: str) -> Program:
    """The program, or a `FlowError` that points at the place."""
    if len(text) > TEXT_MAX:
        raise FlowError(f"a program has at most {TEXT_MAX} characters", Place(1, 1))
    return _Parser(text).program()


def _lexemes(text: str) -> list[_Lexeme]:
    found: list[_Lexeme] = []
    line, begin, at = 1, 0, 0
    while at < len(text):
        place = Place(line, at - begin + 1)
        match = _LEXEME.match(text, at)
        if match is None:
            raise FlowError(f"{text[at]!r} means nothing here", place, text)
        if match.lastgroup != "space":
            assert match.lastgroup is not None
            found.append(_Lexeme(match.lastgroup, match.group(), place))
        at = match.end()
        if match.group() == "\n":
            line, begin = line + 1, at
    found.append(_Lexeme("end", "", Place(line, at - begin + 1)))
    return found


class _Parser:
    """Recursive descent: one method for each rule of the grammar."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._lexemes = _lexemes(text)
        self._at = 0
        self._depth = 0

    @property
    def _next(self) -> _Lexeme:
        return self._lexemes[self._at]

    def _fail(self, problem: str, place: Place | None = None) -> FlowError:
        return FlowError(problem, place or self._next.place, self._text)

    def _advance(self) -> _Lexeme:
        found = self._next
        if self._at < len(self._lexemes) - 1:
            self._at += 1
        return found

    def _accept(self, text: str) -> bool:
        if self._next.text == text and self._next.kind != "end":
            self._advance()
            return True
        return False

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            raise self._fail(f"expected {text!r}, found {self._shown()}")

    def _shown(self) -> str:
        return "the end of the line" if self._next.kind == "end" else repr(self._next.text)

    def _name(self, what: str) -> Name:
        found = self._next
        if found.kind != "name" or found.text in _RESERVED:
            raise self._fail(f"expected {what}, found {self._shown()}")
        self._advance()
        return Name(found.text, found.place)

    def program(self) -> Program:
        """All statements."""
        name = ""
        definitions: list[Definition] = []
        outputs: list[Name] = []
        while True:
            while self._next.kind == "end" and self._at < len(self._lexemes) - 1:
                self._advance()
            if self._at == len(self._lexemes) - 1:
                break
            if self._accept("program"):
                name = self._name("the program's name").name
            elif self._accept("input"):
                definitions.append(self._input())
            elif self._accept("output"):
                outputs.append(self._name("a flow"))
                while self._accept(","):
                    outputs.append(self._name("a flow"))
            else:
                definitions.append(self._definition(is_global=self._accept("global")))
            if self._next.kind != "end":
                raise self._fail(f"expected the end of the line, found {self._shown()}")
        if not name:
            raise self._fail("a program begins with 'program NAME'", Place(1, 1))
        return Program(name, tuple(definitions), tuple(outputs), self._text)

    def _input(self) -> Input:
        name = self._name("the name of a flow")
        self._expect(":")
        named = self._name("a type")
        if named.name not in [each.value for each in Type]:
            raise self._fail(
                f"there is no type {named.name!r}; there is {', '.join(t.value for t in Type)}", named.place
            )
        order: Order | None = Order.GROWS
        if self._accept("free"):
            order = None
        elif self._accept("falls"):
            order = Order.FALLS
        else:
            self._accept("grows")
        return Input(name.name, Type(named.name), order, name.place)

    def _definition(self, *, is_global: bool) -> Definition:
        name = self._name("a statement")
        self._expect("=")
        begin = self._next
        if self._accept("disseminate"):
            return Dissemination(name.name, self._name("a flow"), name.place)
        if self._accept("distribute"):
            source = self._name("a flow")
            return Distribution(name.name, source, self._share_condition(name), name.place)
        operator = _SIGNS.get(begin.text, begin.text)
        if begin.kind != "end" and operator in OPERATORS:
            self._advance()
            return self._aggregation(name, operator, begin.place, is_global=is_global)
        expression = self._expression()
        return Transformation(name.name, expression, name.place, self._accept("assumed"), is_global)

    def _aggregation(self, name: Name, operator: str, place: Place, *, is_global: bool) -> Aggregation:
        source = self._atom()
        flavours = self._flavours()
        condition = None
        if self._accept("where"):
            left = self._name("a flow")
            self._expect("<=")
            condition = (left, self._name("a flow"))
        assumed = self._accept("assumed")
        return Aggregation(name.name, operator, source, flavours, name.place, place, assumed, is_global, condition)

    def _flavours(self) -> tuple[str, ...]:
        found: list[str] = []
        if self._accept("["):
            while True:
                if self._next.text not in FLAVOURS:
                    raise self._fail(f"a flavour is one of {', '.join(FLAVOURS)}, not {self._shown()}")
                found.append(self._advance().text)
                if not self._accept(","):
                    break
            self._expect("]")
        return tuple(found)

    def _share_condition(self, name: Name) -> Name | None:
        if not self._accept("where"):
            return None
        left = self._name("the distributed flow")
        if left.name != name.name:
            raise self._fail(f"the condition of {name.name} is about {name.name}, not {left.name}", left.place)
        self._expect("|2")
        self._expect("<=")
        return self._name("a flow")

    def _expression(self) -> Expression:
        left = self._atom()
        while self._next.text in ("+", "-", "\\", "\\/", "/\\") and self._next.kind == "sign":
            sign = self._advance()
            left = Call(sign.text, (left, self._atom()), sign.place)
        return left

    def _atom(self) -> Expression:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise self._fail(f"nested deeper than {DEPTH_MAX}")
        try:
            return self._atom_inside()
        finally:
            self._depth -= 1

    def _atom_inside(self) -> Expression:
        found = self._next
        if self._accept("("):
            inside = self._expression()
            self._expect(")")
            return inside
        if found.kind == "number":
            self._advance()
            if len(found.text) > 15:
                raise self._fail("a number has at most 15 digits", found.place)
            return Number(int(found.text), found.place)
        if self._accept("self"):
            self._expect("*")
            return Call("self *", (self._atom(),), found.place)
        if found.text in function_names() and self._lexemes[self._at + 1].text == "(":
            self._advance()
            self._advance()
            arguments = [self._expression()]
            while self._accept(","):
                arguments.append(self._expression())
            self._expect(")")
            return Call(found.text, tuple(arguments), found.place)
        return self._name("a flow, a number or '('")
