"""``--args`` and ``--blocks``: what they mean, and what is said where they mean nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from typedpallas import dtypes
from typedpallas.cli.avals import Aval, parse_avals, parse_blocks
from typedpallas.cli.names import UsageError

AVALS = st.builds(
    Aval,
    st.sampled_from([marker.jax_name for marker in dtypes.MARKERS]),
    st.lists(st.integers(0, 10**6), max_size=4).map(tuple),
)


@given(st.lists(AVALS, max_size=5).map(tuple), st.sampled_from([",", ", ", " , "]))
def test_what_is_printed_reads_back(avals: tuple[Aval, ...], comma: str) -> None:
    assert parse_avals(comma.join(map(str, avals))) == avals


@pytest.mark.parametrize("text", ["f32[8,128]", "float32[8, 128]", " f32 [ 8 , 128 ] ,", "f32[8,1_28]"])
def test_spellings_of_one_aval(text: str) -> None:
    assert parse_avals(text) == (Aval("float32", (8, 128)),)


@pytest.mark.parametrize(
    ("text", "message", "part"),
    [
        ("f32[8], bf17[8]", "did you mean `bf16`", "bf17"),
        ("f32[8], bf16", "`bf16` has no shape", "bf16"),
        ("f32[8,x]", "expected a size in elements, found `x`", "x"),
        ("f32[8,-1]", "expected a size in elements, found `-1`", "-1"),
        ("f32[8,]", "expected a size in elements, found nothing", "]"),
        ("f32[8] f32[8]", "expected a comma or the end", "f"),
        ("f32[8],,f32[8]", "expected an argument", ","),
        ("f32[8", "`f32` has no shape", "f32"),
    ],
)
def test_what_means_nothing_is_pointed_at(text: str, message: str, part: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_avals(text)
    head, shown, carets = str(caught.value).splitlines()
    assert message in head
    assert shown.strip() == text
    start = carets.index("^")
    assert shown[start : start + carets.count("^")] == part


def test_blocks() -> None:
    assert parse_blocks("BM=512, BK=1_024") == {"BM": 512, "BK": 1024}


@pytest.mark.parametrize(
    ("text", "message", "part"),
    [
        ("BM=512,BK", "expected `NAME=SIZE`", "BK"),
        ("BM=512,BM=8", "`BM` is given twice", "BM=8"),
        ("BM=x", "expected `NAME=SIZE`", "BM=x"),
    ],
)
def test_blocks_that_mean_nothing(text: str, message: str, part: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_blocks(text)
    head, shown, carets = str(caught.value).splitlines()
    assert message in head
    assert shown[carets.index("^") :][: carets.count("^")] == part
