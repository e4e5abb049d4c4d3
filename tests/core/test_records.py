"""Records behave as frozen dataclasses do, though their methods are made late or shared."""

import dataclasses
import pickle

import pytest

from typedpallas.records import record


@record(frozen=True)
class Point:
    """Fields with and without defaults."""

    x: int
    y: int = 2
    seen: list[int] = dataclasses.field(default_factory=list)


@record(frozen=True, kw_only=True)
class Named(Point):
    """Only keywords of its own."""

    name: str
    size: int = 3


@record(frozen=True)
class Checked:
    """Looks at itself."""

    x: int

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError("negative")


class Child(Point):
    """No record itself."""


def test_arguments_are_those_of_a_dataclass():
    assert Point(1) == Point(1, 2, []) == Point(y=2, x=1)
    assert Point(1).seen is not Point(1).seen
    made = Named(1, name="a")
    assert (made.x, made.y, made.name, made.size) == (1, 2, "a", 3)
    for wrong in (lambda: Point(), lambda: Point(1, 2, [], 4), lambda: Point(1, z=2), lambda: Named(1, 2, [], "a")):
        with pytest.raises(TypeError):
            wrong()
        with pytest.raises(TypeError):  # the first call made the method, the second has it
            wrong()


def test_a_child_and_a_check_after_init():
    assert Child(5).x == 5 and type(Child(5)) is Child and Child(5) != Point(5)
    for _ in range(2):
        with pytest.raises(ValueError, match="negative"):
            Checked(-1)
    assert Checked(1) == Checked(1) and hash(Checked(1)) == hash(Checked(1))


def test_dataclasses_know_them():
    assert [item.name for item in dataclasses.fields(Named)] == ["x", "y", "seen", "name", "size"]
    assert dataclasses.replace(Point(1), y=5) == Point(1, 5)
    assert dataclasses.asdict(Point(1)) == {"x": 1, "y": 2, "seen": []}
    assert pickle.loads(pickle.dumps(Point(1))) == Point(1)
    assert repr(Point(1)) == "Point(x=1, y=2, seen=[])"


def test_only_frozen():
    with pytest.raises(TypeError, match="frozen"):
        record(frozen=False)
