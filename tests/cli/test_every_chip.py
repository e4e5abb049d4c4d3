"""The demo's table: rows as they fill, footnotes, and a compiler that is not there."""

import io

import jax
import jax.numpy as jnp
import pytest

from typedpallas.cli.asking import Answer
from typedpallas.cli.demo import every_chip
from typedpallas.cli.demo.every_chip import Cell, Table
from typedpallas.cli.terminal import Screen

ROWS = (("tpu-v4", "mosaic_tpu"), ("h100", "mosaic_gpu"), ("h100", "triton"))


def cells() -> list[Cell]:
    return [Cell(kernel, target, backend, None, ()) for target, backend in ROWS for kernel in ("relu", "matmul")]


def filled(**kinds: str) -> Table:
    """A finished table; ``kinds`` by target."""
    table = Table(cells())
    for cell in table.cells:
        kind = kinds.get(cell.target.replace("-", "_"), "") if cell.kernel == "matmul" else ""
        reason = f"too large for {cell.target}" if kind else ""
        table.answers[cell] = Answer(target=cell.target, kind=kind, reason=reason, seconds=0.5, cached=not kind)
    table.finished = True
    return table


def shown(table: Table, live: bool = False) -> tuple[bool, str]:
    stream = io.StringIO()
    fine = every_chip.show(Screen(stream, False, True, live, 100), table)
    return fine, stream.getvalue()


def test_every_cell_and_every_reason_is_shown() -> None:
    fine, text = shown(filled(h100="refused"))
    assert fine
    lines = text.splitlines()
    assert ["target", "backend", "relu", "matmul"] in [line.split() for line in lines]
    assert "tpu-v4    Mosaic TPU  compiled  0.50 s  compiled  0.50 s" in lines
    assert "h100      Mosaic GPU  compiled  0.50 s  refused (1)" in lines
    assert "h100      Triton      compiled  0.50 s  refused (1)" in lines
    assert "(1) matmul on h100: too large for h100" in lines
    assert any(line.startswith("4 of 6 compiled; 4 answers are remembered") for line in lines)
    assert max(map(len, lines)) <= 110


@pytest.mark.parametrize(("kind", "fine"), [("refused", True), ("unavailable", True), ("crashed", False)])
def test_a_crash_is_a_failure_and_a_refusal_is_not(kind: str, fine: bool) -> None:
    assert shown(filled(tpu_v4=kind))[0] is fine


def test_a_live_table_is_drawn_over_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINES", "50")
    table = filled()
    waits = iter([True, False])
    monkeypatch.setattr(table, "wait", lambda seconds: next(waits))
    _, text = shown(table, live=True)
    assert text.count("\x1b[5F\x1b[J") == 1
    assert "6 of 6, 0 s ..." in text


def test_what_asking_raises_comes_out() -> None:
    def broken(x: jax.Array) -> jax.Array:
        raise RuntimeError("my own mistake")

    aval = jax.ShapeDtypeStruct((8, 128), jnp.float32)
    table = Table([Cell("broken", "h100", "triton", broken, (aval,))]).start(1)
    while table.wait(1.0):
        pass
    with pytest.raises(RuntimeError, match="my own mistake"):
        shown(table)
