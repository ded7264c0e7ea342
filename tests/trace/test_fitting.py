from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Annotated, Any, Literal, NewType

import msgspec
import pytest

from isotone.core.errors import InputError
from isotone.trace.fitting import check_fields

Name = NewType("Name", str)


class Everything(msgspec.Struct):
    name: Name
    small: Annotated[int, msgspec.Meta(ge=0)] = 0
    pair: tuple[int, str] = (1, "a")
    names: list[str] = []
    share: float | None = None
    moods: AbstractSet[str] = frozenset()
    table: Mapping[str, Sequence[int]] = {}
    word: Literal["a", "b"] = "a"
    data: memoryview = memoryview(b"")


GOOD: list[Any] = ["n", 1, (1, "a"), ["x"], None, frozenset("ab"), {"a": [1], "b": (2,)}, "b", b"bytes"]


def test_what_fits() -> None:
    check_fields(Everything, GOOD)
    check_fields(Everything, GOOD[:1])
    check_fields(Everything, [*GOOD[:4], 1, *GOOD[5:]])


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (0, b"n"),
        (1, 1.0),
        (2, (1,)),
        (2, (1, 2)),
        (2, [1, "a"]),
        (3, ("x",)),
        (3, [1]),
        (4, "1"),
        (5, "ab"),
        (5, frozenset((1,))),
        (6, []),
        (6, {"a": ["b"]}),
        (6, {1: [1]}),
        (8, "text"),
    ],
)
def test_what_does_not(place: int, value: object) -> None:
    with pytest.raises(InputError, match=f"the field '{Everything.__struct_fields__[place]}'"):
        check_fields(Everything, [*GOOD[:place], value, *GOOD[place + 1 :]])
