"""Pictures of kernels: what they show is what the grid does, and what cannot be painted is said."""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.experimental import pallas as pl

import typedpallas as tp
from typedpallas.drawing import MissingMatplotlib
from typedpallas.drawing.sheets import Block, Panel, sheets

F32 = jnp.float32


def _copy(x, out):
    out[...] = x[...]


def _copied(grid, block, array, index, out_index=None):
    def call(x):
        return pl.pallas_call(
            _copy,
            grid=grid,
            in_specs=[pl.BlockSpec(block, index)],
            out_specs=pl.BlockSpec(block, out_index or index),
            out_shape=jax.ShapeDtypeStruct(array, F32),
        )(x)

    return call, jax.ShapeDtypeStruct(array, F32)


def _panels(call, aval) -> dict[str, Panel]:
    (sheet,) = sheets(tp.check(call, aval), None)
    return {panel.name: panel for panel in sheet.panels}


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 4), st.integers(1, 4), st.booleans())
def test_every_step_is_on_the_block_that_it_visits(rows: int, columns: int, turned: bool) -> None:
    grid = (columns, rows) if turned else (rows, columns)
    call, aval = _copied(
        grid, (8, 128), (rows * 8, columns * 128), (lambda i, j: (j, i)) if turned else lambda i, j: (i, j)
    )
    panel = _panels(call, aval)["x"]
    expected = {}
    for step in range(rows * columns):
        first, second = divmod(step, grid[1])
        expected[(second, first) if turned else (first, second)] = (step,)
    assert {(block.row, block.column): block.steps for block in panel.blocks} == expected
    assert panel.known and not panel.never


def test_blocks_outside_and_blocks_that_nobody_writes() -> None:
    call, aval = _copied((4,), (8, 128), (32, 128), lambda i: (i + 1, 0), lambda i: (i // 2, 0))
    panels = _panels(call, aval)
    assert [block.steps for block in panels["x"].blocks if panels["x"].is_outside(block)] == [(3,)]
    assert panels["out"].never == [(2, 0), (3, 0)]


def test_more_dims_show_the_part_that_the_first_step_visits() -> None:
    call, aval = _copied((3, 2), (1, 8, 128), (3, 16, 128), lambda b, i: (b, i, 0))
    panel = _panels(call, aval)["x"]
    assert panel.shown == "x[0, :, :]"
    assert [(block.row, block.steps) for block in panel.blocks] == [(0, (0,)), (1, (1,))]


@pytest.mark.parametrize(
    ("steps", "label"), [((3,), "3"), ((0, 1, 2), "0-2"), ((0, 4), "0, 4"), ((0, 4, 8, 12), "0, 4 .. 12")]
)
def test_labels(steps: tuple[int, ...], label: str) -> None:
    assert Block(0, 0, steps).label == label


def _needs_matplotlib() -> None:
    pytest.importorskip("matplotlib", reason='pip install "typedpallas[draw]"')


def test_a_picture_says_what_is_wrong_and_what_memory_is_taken(tmp_path: Path) -> None:
    _needs_matplotlib()
    call, aval = _copied((4,), (8, 128), (32, 128), lambda i: (i + 1, 0))
    file = tmp_path / "copy.svg"
    report = tp.draw(call, aval, file=file, target="tpu-v5e")
    assert not report.ok
    text = file.read_text()
    for part in (
        "_copy on tpu-v5e: grid 4, 4 steps",
        "in x: float32[32, 128]",
        "[block-out-of-range]",
        "VMEM: 16 KiB",
    ):
        assert part in text, part


def test_many_kernels_and_blocks_still_fit(tmp_path: Path) -> None:
    _needs_matplotlib()
    call, aval = _copied((64, 64), (8, 128), (512, 8192), lambda i, j: (i, j))
    tp.draw(lambda x: call(call(x)), aval, file=tmp_path / "two.png")
    assert (tmp_path / "two.png").stat().st_size > 10_000


def test_what_cannot_be_painted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    call, aval = _copied((4,), (8, 128), (32, 128), lambda i: (i, 0))
    with pytest.raises(ValueError, match=r"\.svg, \.png, \.pdf; found `copy\.gif`"):
        tp.draw(call, aval, file=tmp_path / "copy.gif")
    with pytest.raises(ValueError, match="launches no kernel"):
        tp.draw(lambda x: x, aval, file=tmp_path / "none.svg")
    for name in [name for name in sys.modules if name.startswith("typedpallas.drawing.painting")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr("typedpallas.drawing.painting", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingMatplotlib, match=r'pip install "typedpallas\[draw\]"'):
        tp.draw(call, aval, file=tmp_path / "copy.svg")
