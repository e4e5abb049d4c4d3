"""Where copies to tiled shared memory may start, and from which arrays: the rule against Mosaic GPU's lowering."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import pytest
from gpu_asked import Case, Layout, S, flagged, refused, transforms
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

import typedpallas as tp

type Take = Callable[[Callable[..., None], Any, Any], None]


@dataclass(frozen=True)
class Start:
    """A copy that ``take`` makes, given what copies a part, the block's number and a table of numbers."""

    take: Take
    array: tuple[int, ...] = (1024, 1024)
    layout: Layout = ((8, 64), 128)
    multiplied: bool = False
    grid: tuple[int, ...] = (4,)

    def case(self) -> Case:
        """The kernel and its operands' types."""
        scratch: dict[str, Any] = {
            "xs": plgpu.SMEM((64, 64), jnp.float16, transforms=transforms(self.layout)),
            "ys": plgpu.SMEM((64, 64) if self.multiplied else (8,), jnp.float16),
            "arrived": plgpu.Barrier(),
        }
        names = tuple("ijklm"[: len(self.grid)])
        out = S((64, 64), jnp.float16)
        run = plgpu.kernel(self._body, out_type=out, scratch_types=scratch, grid=self.grid, grid_names=names)
        return run, (S((16,), jnp.int32), S(self.array, jnp.float16))

    def _body(self, table: Any, x: Any, o: Any, *, xs: Any, ys: Any, arrived: Any) -> None:
        def fetch(part: Any, buffer: Any) -> None:
            plgpu.copy_gmem_to_smem(x.at[part], buffer, arrived)
            plgpu.barrier_wait(arrived)

        self.take(lambda *part: fetch(part, xs), lax.axis_index("i"), table)
        if self.multiplied:
            fetch((pl.ds(0, 64), pl.ds(0, 64)), ys)

            def square(acc: Any) -> Any:
                plgpu.wgmma(acc, xs, ys)
                return acc[...]

            xs[...] = pl.run_scoped(square, plgpu.ACC((64, 64), jnp.float32)).astype(jnp.float16)
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(xs, o)
        plgpu.wait_smem_to_gmem(0)


def _row(start: Callable[[Any, Any], Any]) -> Take:
    return lambda copy, i, table: copy(pl.ds(start(i, table), 64), pl.ds(0, 64))


def _column(start: Callable[[Any], Any]) -> Take:
    return lambda copy, i, table: copy(pl.ds(0, 64), pl.ds(start(i), 64))


def _looped(step: int, turns: int = 4, unroll: bool = False) -> Take:
    def take(copy: Callable[..., None], i: Any, table: Any) -> None:
        lax.fori_loop(0, turns, lambda j, _: copy(pl.ds(j * step, 64), pl.ds(0, 64)), None, unroll=unroll)

    return take


def _carried(copy: Callable[..., None], i: Any, table: Any) -> None:
    def turn(_: Any, row: Any) -> Any:
        copy(pl.ds(row, 64), pl.ds(0, 64))
        return row + 64

    lax.fori_loop(0, 4, turn, jnp.int32(0))


WHOLE = _row(lambda i, t: 0)
TAKEN = {
    "product": Start(_row(lambda i, t: i * 8)),
    "folded sum": Start(_row(lambda i, t: i * 8 + 4 + 4)),
    "folded product": Start(_row(lambda i, t: (i * 2) * 4)),
    "difference": Start(_row(lambda i, t: 256 - i * 8)),
    "maximum": Start(_row(lambda i, t: jnp.maximum(i * 8, t[0] * 16))),
    "where": Start(_row(lambda i, t: jnp.where(i > 1, i * 8, 0))),
    "remainder": Start(_row(lambda i, t: lax.rem(i * 8, 16))),
    "mask": Start(_row(lambda i, t: (i * 4) & -8)),
    "quotient times": Start(_row(lambda i, t: i // 2 * 8)),
    "promise": Start(_row(lambda i, t: pl.multiple_of(t[i], 8))),
    "constant": Start(_row(lambda i, t: 8)),
    "loop": Start(_looped(8)),
    "loop of one turn": Start(_looped(4, turns=1)),
    "loop written out": Start(_looped(8, unroll=True)),
    "columns": Start(_column(lambda i: i * 64)),
    "columns of a product": Start(_column(lambda i: i * 16), layout=None, multiplied=True),
    "integer": Start(lambda copy, i, t: copy(i, pl.ds(0, 64), pl.ds(0, 64)), (4, 1024, 1024)),
    "a folded axis": Start(
        lambda copy, i, t: copy(pl.ds(lax.axis_index("k"), 64), pl.ds(0, 64)), grid=(2, 1, 1, 1, 3)
    ),
    "no tiles": Start(_row(lambda i, t: i), layout=None),
}
REFUSED = {
    "half a tile": Start(_row(lambda i, t: i * 4)),
    "any": Start(_row(lambda i, t: i)),
    "one block": Start(_row(lambda i, t: i), grid=(1,)),
    "data": Start(_row(lambda i, t: t[i])),
    "sum": Start(_row(lambda i, t: i * 8 + 4)),
    "factors": Start(_row(lambda i, t: (i * 4) * (i * 2))),
    "shift": Start(_row(lambda i, t: i << 3)),
    "quotient": Start(_row(lambda i, t: lax.div(i * 64, 8))),
    "minimum": Start(_row(lambda i, t: jnp.minimum(i * 8, t[0]))),
    "constant": Start(_row(lambda i, t: 4)),
    "loop": Start(_looped(1)),
    "loop written out": Start(_looped(4, unroll=True)),
    "carried": Start(_carried),
    "columns": Start(_column(lambda i: i * 32)),
    "rows of a product": Start(_row(lambda i, t: i), layout=None, multiplied=True),
    "columns of a product": Start(_column(lambda i: i * 8), layout=None, multiplied=True),
    "ragged columns": Start(WHOLE, (1024, 1000)),
    "ragged columns of a product": Start(WHOLE, (1024, 1000), None, multiplied=True),
    "ragged rows": Start(WHOLE, (1001, 1024)),
    "ragged columns, rank 3": Start(lambda copy, i, t: copy(i, pl.ds(0, 64), pl.ds(0, 64)), (4, 1024, 96)),
    "ragged columns, rank 1 tile": Start(WHOLE, (1024, 1000), ((64,), 128)),
}


@pytest.mark.parametrize("target", ["h100", "b200"])
@pytest.mark.parametrize("name", TAKEN)
def test_a_start_that_the_lowering_takes_is_no_alarm(name: str, target: str) -> None:
    start = TAKEN[name]
    if start.multiplied and target == "b200":
        pytest.skip("wgmma is Hopper's")
    assert flagged(start.case(), target) == set()


@pytest.mark.parametrize("name", REFUSED)
def test_a_start_that_the_lowering_refuses_is_refuted(name: str) -> None:
    assert flagged(REFUSED[name].case(), "h100") == {"swizzle-mismatch"}


@pytest.mark.compiler
@pytest.mark.parametrize("name", TAKEN)
def test_the_lowering_takes(name: str) -> None:
    assert refused(TAKEN[name].case(), "h100") == ""


@pytest.mark.compiler
@pytest.mark.parametrize("name", REFUSED)
def test_the_lowering_refuses(name: str) -> None:
    assert refused(REFUSED[name].case(), "h100")


def test_the_error_names_a_step_at_which_no_tile_starts() -> None:
    run, args = REFUSED["half a tile"].case()
    text = str(tp.check(run, *args, target="h100"))
    assert 'at axis_index("i") = 1 it starts at 4 = 0*8 + 4' in text
    assert "multiple_of(start, 8)" in text


COLUMNS = [
    ((64, 8), (pl.ds(0, 64), 3)),
    ((64, 64, 8), (pl.ds(0, 64), pl.ds(0, 64), 3)),
    ((64, 8, 8), (pl.ds(0, 64), 3)),
]


@pytest.mark.compiler
@pytest.mark.parametrize(("array", "part"), COLUMNS)
def test_an_integer_takes_the_last_dim_away_only_where_the_copy_engine_can(
    array: tuple[int, ...], part: tuple[Any, ...]
) -> None:
    """The last case takes a dim away that is not the last one."""
    box = jnp.empty(array)[tuple(slice(0, one.size) if hasattr(one, "size") else one for one in part)].shape

    def kernel(x: Any, o: Any, buffer: Any, arrived: Any) -> None:
        plgpu.copy_gmem_to_smem(x.at[part], buffer, arrived)
        plgpu.barrier_wait(arrived)
        plgpu.copy_smem_to_gmem(buffer, o)
        plgpu.wait_smem_to_gmem(0)

    scratch = [plgpu.SMEM(box, jnp.float16), plgpu.Barrier()]
    case = plgpu.kernel(kernel, out_type=S(box, jnp.float16), scratch_types=scratch), (S(array, jnp.float16),)
    whole = len(part) < len(array)
    assert flagged(case, "h100") == (set() if whole else {"tma-box"})
    assert bool(refused(case, "h100")) != whole
