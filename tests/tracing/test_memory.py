"""The memory ledgers of traced kernels."""

import re

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import typedpallas as tp
from typedpallas import chips
from typedpallas.compilers.ambient import target_context
from typedpallas.events import Context, MemoryUse
from typedpallas.tracing import jaxapi, memory
from typedpallas.tracing.ledgers import vmem as ledger_vmem
from typedpallas.tracing.ledgers import windows as ledger_windows
from typedpallas.tracing.walk import kernels

MIB = 1 << 20


def _copy(rows: int, steps: int, columns: int = 1024, *, limit: int | None = None, still: bool = False):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    shape = jax.ShapeDtypeStruct((rows * steps, columns), jnp.float32)

    def run(x):
        return pl.pallas_call(
            kernel,
            out_shape=shape,
            grid=(steps,),
            in_specs=[pl.BlockSpec((rows, columns), (lambda i: (0, 0)) if still else (lambda i: (i, 0)))],
            out_specs=pl.BlockSpec((rows, columns), lambda i: (i, 0)),
            compiler_params=pltpu.CompilerParams(vmem_limit_bytes=limit),
        )(x)

    return run, shape


def _ledger(run, *avals, target: str = "tpu-v5e") -> MemoryUse:
    chip = chips.get(target)
    with target_context(chip):
        (call,) = kernels(jaxapi.trace(run, avals), "mosaic_tpu")
        (located,) = memory.events(call, Context(backend="mosaic_tpu", target=chip))
    assert isinstance(located.event, MemoryUse)
    return located.event


@pytest.mark.parametrize(
    ("shape", "bits", "low", "high"),
    [
        ((8, 128), 32, 4096, 4096),
        ((9, 100), 32, 8192, 8192),
        ((3, 128), 32, 2048, 4096),
        ((1, 128), 16, 256, 4096),
        ((24, 512), 16, 24 * 1024, 32 * 1024),
        ((4, 8, 200), 8, 8192, 32768),
        ((1000,), 32, 4096, 4096),
    ],
)
def test_padding(shape: tuple[int, ...], bits: int, low: int, high: int) -> None:
    assert ledger_windows.padded(shape, bits) == (low, high)


@pytest.mark.parametrize(
    ("rows", "bits", "most"),
    [(2, 16, 2), (1, 16, 2), (3, 16, 4), (9, 16, 16), (2, 8, 4), (9, 8, 16), (17, 8, 24), (5, 32, 8), (17, 16, 32)],
)
def test_few_rows_fill_no_large_tile(rows: int, bits: int, most: int) -> None:
    """A page of a paged cache is many pairs of rows: no more is held of them than words that two rows fill."""
    assert ledger_windows.held((64, rows, 128), bits)[1] == 64 * most * 128 * bits // 8


def test_a_moving_block_costs_two_buffers_and_one_that_stays_one() -> None:
    run, x = _copy(512, 64)
    assert _ledger(run, x).low == _ledger(run, x).high == 8 * MIB
    run, x = _copy(512, 64, still=True)
    assert _ledger(run, x).high == 6 * MIB
    run, x = _copy(512, 1)
    assert _ledger(run, x).high == 4 * MIB


def test_limits() -> None:
    run, x = _copy(2048, 64)
    assert not tp.check(run, x, target="tpu-v5e").ok
    run, x = _copy(2048, 64, limit=64 * MIB)
    assert tp.check(run, x, target="tpu-v5e").ok
    assert not tp.check(run, x, target="tpu-v4").ok
    run, x = _copy(2048, 64, limit=150 * MIB)
    assert tp.check(run, x, target="tpu-v5e").ok, "asking for more than there is compiles"
    run, x = _copy(4096, 64, limit=150 * MIB)
    assert tp.check(run, x, target="tpu-v5e").ok
    assert not tp.check(run, x, target="tpu-7x").ok, "64.00 MiB, and there are 63.94"


def test_what_xla_may_keep_in_vmem_is_not_certain() -> None:
    """A computed array of 32 MiB may stay in VMEM around the kernel; one of 256 MiB can't."""
    run, x = _copy(4096, 2)
    assert not tp.check(run, x, target="tpu-v5e").ok
    inside = tp.check(lambda x: run(x * 2.0) * 2.0, x, target="tpu-v5e")
    assert [(item.rule, item.verdict) for item in inside.diagnostics] == [("vmem-overflow", "open")]
    run, x = _copy(4096, 16)
    assert not tp.check(lambda x: run(x * 2.0) * 2.0, x, target="tpu-v5e").ok


def test_the_help_fits() -> None:
    run, x = _copy(4096, 16)
    (finding,) = tp.check(run, x, target="tpu-v5e").diagnostics
    assert finding.message.startswith("the kernel needs 64.00 MiB of VMEM: expected at most 16.00 MiB")
    assert "blocks of 1024 where they are 4096" in finding.help and f"vmem_limit_bytes={64 * MIB}" in finding.help
    run, x = _copy(1024, 64)
    assert tp.check(run, x, target="tpu-v5e").ok


def test_scratch_counts_where_it_is_read() -> None:
    def kernel(x_ref, o_ref, held):
        held[...] = held[...] + x_ref[...]
        o_ref[...] = held[...]

    def run(x):
        spec = pl.BlockSpec((512, 1024), lambda i: (i, 0))
        scratch = [pltpu.VMEM((512, 1024), jnp.float32)]
        return pl.pallas_call(
            kernel, out_shape=x, grid=(64,), in_specs=[spec], out_specs=spec, scratch_shapes=scratch
        )(x)

    use = _ledger(run, jax.ShapeDtypeStruct((512 * 64, 1024), jnp.float32))
    assert use.low == use.high == 10 * MIB
    assert {item.name: item.high for item in use.items}["held"] == 2 * MIB


def _kept(kind: str):
    def kernel(x_ref, o_ref, held):
        if kind == "carried":
            held[...] += x_ref[...]
        elif kind == "handed on":
            held[...] = x_ref[...]
            held[...] += x_ref[...]
        elif kind == "stored":
            held[0:256, :] = x_ref[0:256, :]
            pl.when(pl.program_id(0) == 0)(lambda: held.__setitem__(..., x_ref[...]))
            o_ref[...] = x_ref[...] * 2
            return
        else:
            pl.when(pl.program_id(0) == 0)(lambda: held.__setitem__(..., jnp.zeros_like(held)))
            held[...] += x_ref[...]
        o_ref[...] = held[...] * 2

    steps = 1 if kind == "one step" else 64
    spec = pl.BlockSpec((512, 1024), lambda i: (i, 0))
    shape = jax.ShapeDtypeStruct((512 * steps, 1024), jnp.float32)
    scratch = [pltpu.VMEM((512, 1024), jnp.float32)]
    call = pl.pallas_call(
        kernel, out_shape=shape, grid=(steps,), in_specs=[spec], out_specs=spec, scratch_shapes=scratch
    )
    return call, shape


_KEPT = {"carried": True, "stored": None, "handed on": False, "one step": False, "many steps": True}


@pytest.mark.parametrize("kind", _KEPT)
def test_scratch_that_only_hands_values_on_may_cost_nothing(kind: str) -> None:
    use = _ledger(*_kept(kind))
    costs = {item.name: (item.low, item.high) for item in use.items}.get("held")
    assert costs == {True: (2 * MIB, 2 * MIB), False: (0, 2 * MIB), None: None}[_KEPT[kind]]


@pytest.mark.compiler
@pytest.mark.parametrize("kind", _KEPT)
def test_the_compiler_keeps_the_scratch_that_is_said_to_be_needed(kind: str) -> None:
    run, shape = _kept(kind)
    module = tp.compile(run, shape, target="tpu-v5e").module
    (size,) = re.findall(r'"used_scoped_memory_configs":\[\{"memory_space":"1","offset":"0","size":"(\d+)"', module)
    use = _ledger(run, shape)
    assert use.low <= int(size) <= use.high
    assert int(size) == use.low, "these have no temporaries"


def test_an_argument_that_can_be_moved_meanwhile_is_not_certain_to_cost_a_window() -> None:
    run, x = _copy(512, 4)

    def twice(x):
        return run(jnp.sin(x)), run(x)

    chip = chips.get("tpu-v5e")
    with target_context(chip):
        first, second = kernels(jaxapi.trace(twice, (x,)), "mosaic_tpu")
    lows = [ledger_vmem.use(call, chip).items for call in (first, second)]
    assert [{item.name: item.low for item in items}["x_ref"] for items in lows] == [0, 0]


def _product(k: int, dtype: str):
    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

    def run(x, y):
        out = jax.ShapeDtypeStruct((128, 128), jnp.float32)
        return pl.pallas_call(kernel, out_shape=out)(x, y)

    return run, jax.ShapeDtypeStruct((128, k), dtype), jax.ShapeDtypeStruct((k, 128), dtype)


@pytest.mark.parametrize(
    ("k", "dtype", "target", "ok"),
    [
        (512, "bfloat16", "a100", False),
        (512, "bfloat16", "h100", False),
        (256, "bfloat16", "a100", True),
        (512, "float32", "h100", False),
        (256, "float32", "a100", True),
    ],
)
def test_the_operands_of_a_product_in_shared_memory(k: int, dtype: str, target: str, ok: bool) -> None:
    """Two operands of 16 bits at once; of 32 bits the larger one. Each case as the compiler decides it."""
    assert tp.check(*_product(k, dtype), target=target).ok == ok


def test_mosaic_gpu_is_held_against_the_chip() -> None:
    """Mosaic GPU's own check assumes an H100's shared memory everywhere."""
    plgpu = pytest.importorskip("jax.experimental.pallas.mosaic_gpu")

    def body(x_ref, o_ref, staged):
        staged[...] = jnp.zeros_like(staged)

    def run(x):
        return plgpu.kernel(
            body,
            out_type=x,
            grid=(1,),
            grid_names=("i",),
            scratch_types=[plgpu.SMEM((200, 256), jnp.float32)],
        )(x)

    x = jax.ShapeDtypeStruct((200, 256), jnp.float32)
    assert "shared-memory-overflow" in {item.rule for item in tp.check(run, x, target="a100").diagnostics}
    assert "shared-memory-overflow" not in {item.rule for item in tp.check(run, x, target="h100").diagnostics}


def test_scratch_that_only_a_loop_reads_is_certain() -> None:
    def kernel(x_ref, o_ref, buffer):
        buffer[...] = x_ref[...]

        @pl.loop(0, 4)
        def _(i):
            @pl.when(i > pl.program_id(0))
            def _():
                o_ref[...] = buffer[...]

    shape = jax.ShapeDtypeStruct((1024, 1024), jnp.float32)

    def run(x):
        return pl.pallas_call(
            kernel,
            out_shape=shape,
            grid=(8,),
            in_specs=[pl.BlockSpec((128, 1024), lambda i: (i, 0))],
            out_specs=pl.BlockSpec((128, 1024), lambda i: (i, 0)),
            scratch_shapes=[pltpu.VMEM((128, 1024), jnp.float32)],
        )(x)

    (scratch,) = (item for item in _ledger(run, shape).items if item.name == "buffer")
    assert scratch.low == scratch.high == 128 * 1024 * 4


def _accumulated(block: int):
    """A matrix product in steps, accumulated in scratch: bf16 blocks, ``block`` elements a side."""

    def kernel(x, y, o, acc):
        @pl.when(pl.program_id(2) == 0)
        def _():
            acc[...] = jnp.zeros_like(acc)

        acc[...] += jnp.dot(x[...], y[...], preferred_element_type=jnp.float32)

        @pl.when(pl.program_id(2) == 1)
        def _():
            o[...] = acc[...].astype(o.dtype)

    size = 2 * block
    square = jax.ShapeDtypeStruct((size, size), jnp.bfloat16)
    run = pl.pallas_call(
        kernel,
        out_shape=square,
        grid=(2, 2, 2),
        in_specs=[
            pl.BlockSpec((block, block), lambda i, j, k: (i, k)),
            pl.BlockSpec((block, block), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((block, block), lambda i, j, k: (i, j)),
        scratch_shapes=[pltpu.VMEM((block, block), jnp.float32)],
    )
    return run, square


def test_a_product_that_leaves_no_room_for_its_temporaries_is_left_open() -> None:
    run, square = _accumulated(1024)
    (item,) = tp.check(run, square, square, target="tpu-v5e").diagnostics
    assert (item.rule, item.verdict) == ("vmem-overflow", "open")
    assert any("temporaries of up to 5.06 MiB" in note for note in item.notes)
    run, square = _accumulated(512)
    assert not tp.check(run, square, square, target="tpu-v5e").diagnostics


@pytest.mark.compiler
def test_the_compiler_needs_no_more_than_that_bound() -> None:
    run, square = _accumulated(1024)
    ledger = _ledger(run, square, square)
    with pytest.raises(tp.CompileError) as refused:
        tp.compile(run, square, square, target="tpu-v5e")
    if refused.value.kind == "unavailable":
        pytest.skip(str(refused.value))
    assert "size 18." in refused.value.reason
    assert ledger.low < 18 * MIB < ledger.high
