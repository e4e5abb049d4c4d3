"""What `register-pressure` says of accumulators is what the assembler does with them."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

import typedpallas as tp
from typedpallas import compilers

K, STEPS = 64, 8


@pytest.fixture(autouse=True, scope="module")
def no_process_left() -> Iterator[None]:
    yield
    compilers.shutdown()


def product(rows: int, columns: int, groups: int, registers: int | None) -> tuple[Callable[..., Any], list[Any]]:
    """A loop of products on ``groups`` warpgroups, beside one that copies."""

    def body(a: Any, b: Any, o: Any, a_tile: Any, b_tile: Any, o_tile: Any, filled: Any, freed: Any) -> None:
        group = lax.axis_index("group")

        def multiply(acc: Any) -> Any:
            @pl.loop(0, STEPS)
            def _(_: Any) -> None:
                plgpu.barrier_wait(filled)
                plgpu.wgmma(acc, a_tile.at[group], b_tile)
                plgpu.wgmma_wait(0)
                plgpu.barrier_arrive(freed)

            return acc[...]

        @pl.when(group < groups)
        def _() -> None:
            if registers is not None:
                plgpu.set_max_registers(registers, action="increase")
            o_tile[group] = pl.run_scoped(multiply, plgpu.ACC((rows, columns))).astype(o_tile.dtype)
            plgpu.commit_smem()
            plgpu.copy_smem_to_gmem(o_tile.at[group], o.at[group])
            plgpu.wait_smem_to_gmem(0)

        @pl.when(group == groups)
        def _() -> None:
            if registers is not None:
                plgpu.set_max_registers(24, action="decrease")

            @pl.loop(0, STEPS)
            def _(step: Any) -> None:
                plgpu.copy_gmem_to_smem(a.at[:, :, pl.ds(step * K, K)], a_tile, filled)
                plgpu.copy_gmem_to_smem(b.at[pl.ds(step * K, K)], b_tile, filled)
                plgpu.barrier_wait(freed)

    def run(a: jax.Array, b: jax.Array) -> Any:
        return plgpu.kernel(
            body,
            out_type=jax.ShapeDtypeStruct((groups, rows, columns), jnp.bfloat16),
            num_threads=groups + 1,
            thread_name="group",
            scratch_types=[
                plgpu.SMEM((groups, rows, K), jnp.bfloat16),
                plgpu.SMEM((K, columns), jnp.bfloat16),
                plgpu.SMEM((groups, rows, columns), jnp.bfloat16),
                plgpu.Barrier(num_arrivals=2),
                plgpu.Barrier(num_arrivals=groups),
            ],
        )(a, b)

    shapes = (groups, rows, K * STEPS), (K * STEPS, columns)
    return run, [jax.ShapeDtypeStruct(shape, jnp.bfloat16) for shape in shapes]


@pytest.mark.compiler
@pytest.mark.parametrize(
    ("rows", "columns", "groups", "registers", "spills"),
    [
        (64, 256, 1, None, False),
        (128, 224, 1, None, False),
        (128, 240, 1, None, True),
        (128, 128, 2, None, False),
        (128, 144, 2, None, True),
        (128, 192, 2, 232, False),
        (128, 208, 2, 232, True),
        (64, 192, 3, None, False),
    ],
)
def test_accumulators_spill_where_the_rule_says_so(
    rows: int, columns: int, groups: int, registers: int | None, spills: bool
) -> None:
    run, shapes = product(rows, columns, groups, registers)
    report = tp.check(run, *shapes, target="h200")
    assert report.ok
    assert [d.rule for d in report.diagnostics] == ["register-pressure"] * spills
    try:
        compiled = tp.compile(run, *shapes, target="h200")
    except tp.CompileError as error:
        if error.kind == "unavailable":
            pytest.skip(str(error))
        raise
    [kernel] = [kernel for kernel in compiled.kernels if kernel.registers is not None]
    assert bool(kernel.spilled) == kernel.serialized == bool(compiled.notes) == spills
    assert not spills or f"spills registers, {kernel.spilled} bytes a thread" in compiled.notes[0]
