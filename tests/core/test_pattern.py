"""Launch patterns: what they parse to, and an error with a caret for each way to get them wrong."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from typedpallas.pattern import Cut, Operand, Pattern, PatternError, Step, Whole, parse

AXES, BLOCKS, DIMS = ("i", "j", "k"), ("BM", "BN", "BK"), ("D", "heads", "Lanes_2")

parts = st.one_of(
    st.tuples(st.sampled_from(AXES), st.sampled_from(BLOCKS)).map(lambda p: Cut(*p)),
    st.tuples(st.sampled_from(AXES), st.integers(1, 512)).map(lambda p: Cut(*p)),
    st.sampled_from(AXES).map(Step),
    st.sampled_from(DIMS).map(Whole),
    st.integers(1, 512).map(Whole),
)
operands = st.lists(
    parts, min_size=1, max_size=4, unique_by=lambda part: part if isinstance(part, Whole) else part.axis
).map(lambda found: Operand(tuple(found)))
lists = st.lists(operands, min_size=1, max_size=3).map(tuple)


@given(inputs=st.one_of(st.just(()), lists), outputs=lists)
def test_what_is_written_is_read(inputs: tuple[Operand, ...], outputs: tuple[Operand, ...]) -> None:
    text = f"{', '.join(map(str, inputs))} -> {', '.join(map(str, outputs))}"
    used = {axis for operand in inputs + outputs for axis in operand.axes}
    grid = tuple(axis for axis in AXES if axis in used)
    assert parse(text, grid) == Pattern(text, grid, inputs, outputs)
    squeezed = parse(text.replace(" ", "  ").replace(",", " ,"), " ".join(grid))
    assert (squeezed.inputs, squeezed.outputs) == (inputs, outputs)


def test_matmul() -> None:
    found = parse("(i BM) (k BK), (k BK) (j BN) -> (i BM) (j BN)", "i j k")
    assert found.blocks == ("BM", "BK", "BN") and found.dims == () and found.sequential == ("k",)
    assert found.inputs[0].windows == (("BM", 0), ("BK", 1)) and found.inputs[0].axes == {"i", "k"}
    assert str(found.outputs[0]) == "(i BM) (j BN)"


def test_squeezed_axes_are_no_window() -> None:
    found = parse("b h (i BQ) D -> b h (i BQ) 1", "b h i")
    assert found.inputs[0].windows == (("BQ", 2), ("D", 3))
    assert found.outputs[0].windows == (("BQ", 2), (1, 3))
    assert found.dims == ("D",) and found.sequential == ()


def test_no_inputs_and_no_grid() -> None:
    assert parse("-> 8 N").inputs == ()
    assert parse("N -> N").grid == ()


WRONG: list[tuple[str, str, str, str, str | None]] = [
    ("(i BM)", "i", "expected `->` between the inputs and the outputs", "no arrow", None),
    ("N -> N -> N", "", "a pattern has one `->`", "two arrows", "->"),
    ("(i BM -> (i BM)", "i", "this group is not closed", "open group", "("),
    ("(i BM N) -> (i BM)", "i", "a group holds a grid axis and a block size, like `(i BM)`", "three in a group", "("),
    ("() -> N", "", "a group holds a grid axis and a block size", "empty group", "("),
    ("(j BM) -> (i BM)", "i", "`j` is not a grid axis (grid axes: i); a group starts with one", "unknown axis", "j"),
    ("(i BM) -> N", "", "`i` is not a grid axis (the launch has no grid)", "no grid at all", "i"),
    ("(i j) -> i j", "i j", "`j` is a grid axis; a group ends with a block size", "axis for block", "j"),
    ("i i -> i", "i", "grid axis `i` occurs twice in one operand", "axis twice", "i"),
    ("(i BM) i -> i", "i", "grid axis `i` occurs twice in one operand", "cut and step", "i"),
    ("N 0 -> N", "", "a size is at least 1", "zero", "0"),
    ("(i 0) -> i", "i", "a size is at least 1", "empty block", "0"),
    ("N * 2 -> N", "", "unexpected `*`", "arithmetic", "*"),
    ("N, -> N", "", "expected an operand here", "missing operand", "->"),
    ("N -> ", "", "expected an operand here", "missing output", None),
    ("N -> N,, M", "", "expected an operand here", "two commas", ","),
    ("N) -> N", "", "unexpected `)`", "stray bracket", ")"),
]


@pytest.mark.parametrize(
    ("text", "grid", "message", "token"), [pytest.param(t, g, m, k, id=i) for t, g, m, i, k in WRONG]
)
def test_errors_point_at_the_token(text: str, grid: str, message: str, token: str | None) -> None:
    with pytest.raises(PatternError) as caught:
        parse(text, grid)
    headline, shown, carets = str(caught.value).split("\n")
    assert message in headline
    assert shown == f"  {text}"
    assert caught.value.span is not None
    start, stop = caught.value.span
    assert carets == " " * (2 + start) + "^" * (stop - start)
    if token is None:
        assert start == len(text)
    else:
        assert text[start:stop] == token


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ("i i", "grid axis `i` is listed twice"),
        ("i j", "grid axis `j` occurs nowhere in the pattern"),
        ("i 2", "grid axis `2` is not a name"),
    ],
)
def test_grids_that_mean_nothing(grid: str, message: str) -> None:
    with pytest.raises(PatternError, match=message):
        parse("(i BM) -> (i BM)", grid)


@given(text=st.text(alphabet="(),->ijBM 018*", max_size=24), grid=st.sampled_from(["", "i", "i j"]))
def test_any_text_is_a_pattern_or_a_pattern_error(text: str, grid: str) -> None:
    try:
        found = parse(text, grid)
    except PatternError:
        return
    assert found.outputs and all(operand.parts for operand in found.inputs + found.outputs)
