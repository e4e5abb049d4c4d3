"""Random kernels and how much on-chip memory they need: the compiler's own figure lies in the ledger's interval."""

import math
import random
import re

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import triton as plt
from sweeps_common import TPUS, Kernel, refusal, refuted, samples, verdicts

from typedpallas import chips
from typedpallas.compilers.ambient import target_context
from typedpallas.events import Context, MemoryUse
from typedpallas.tracing import jaxapi, memory
from typedpallas.tracing.walk import kernels

DTYPES = ("float32", "bfloat16", "int8", "int16", "int32", "float8_e4m3fn")
LIMIT = 1 << 16
"""Little enough that nearly every kernel is refused with a figure. Bytes."""
_FIGURE = re.compile(r"Scoped allocation with size (?P<size>[\d.]+)(?P<unit>[KMG]?) ")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_ABOUT_MEMORY = ("vmem", "Scoped", "would exceed memory")


def ledger(kernel: Kernel, target: str) -> MemoryUse:
    """The one ledger of a kernel."""
    chip = chips.get(target)
    with target_context(chip):
        (call,) = kernels(jaxapi.trace(kernel.run, kernel.args), "mosaic_tpu" if chip.machine == "tpu" else "triton")
        (located,) = memory.events(call, Context(backend=call.backend, target=chip))
    assert isinstance(located.event, MemoryUse)
    return located.event


def windows(choose: random.Random, *, limit: int | None = LIMIT, largest: int = 1 << 21) -> Kernel:
    """A copy by blocks with scratch, of an array large or small, its own argument or computed."""
    rank = choose.choice((1, 2, 2, 2, 3))
    while True:
        rows, columns = choose.choice((8, 16, 32, 64, 256, 512, 2048)), choose.choice((128, 256, 500, 512, 1024))
        block = {1: (rows * 1024,), 2: (rows, columns), 3: (choose.choice((1, 2, 4)), rows, columns)}[rank]
        if math.prod(block) <= largest:
            break
    dtype = jnp.dtype(choose.choice(DTYPES))
    steps = choose.choice((1, 3, 8, (1 << 28) // math.prod(block)))
    array = jax.ShapeDtypeStruct((block[0] * steps, *block[1:]), dtype)
    still, single, computed = choose.random() < 0.3, choose.random() < 0.2, choose.random() < 0.3
    rest = (0,) * (rank - 1)
    held = choose.choice(((), (), (8, 128), (16, 200)))
    scratch = [pltpu.VMEM(held, jnp.float32)] if held else []

    def kernel(x_ref: jax.Array, o_ref: jax.Array, *held_refs: jax.Array) -> None:
        for ref in held_refs:
            ref[...] = ref[...] + 1.0
        o_ref[...] = x_ref[...]

    def run(x: jax.Array) -> jax.Array:
        return pl.pallas_call(
            kernel,
            out_shape=array,
            grid=(steps,),
            in_specs=[
                pl.BlockSpec(
                    block,
                    (lambda i: (0, *rest)) if still else (lambda i: (i, *rest)),
                    pipeline_mode=pl.Buffered(1) if single else None,
                )
            ],
            out_specs=pl.BlockSpec(block, lambda i: (i, *rest)),
            scratch_shapes=scratch,
            compiler_params=pltpu.CompilerParams(vmem_limit_bytes=limit),
        )(x + x if computed else x)

    words = f"{dtype} block {block} x {steps}, still {still}, single {single}, computed {computed}, scratch {held}"
    return Kernel(words, run, (array,))


@pytest.mark.compiler
@pytest.mark.parametrize("target", TPUS)
def test_the_compilers_figure_lies_in_the_interval(target: str) -> None:
    for kernel in samples(6, windows):
        use, words = ledger(kernel, target), refusal(kernel, target)
        about = f"{kernel.words} on {target}: {use.low} to {use.high}"
        found = _FIGURE.search(words)
        if found is None:
            assert words or use.low <= LIMIT, f"{about}, but it is taken"
            continue
        size, rounding = float(found["size"]) * _UNITS[found["unit"]], 0.01 * _UNITS[found["unit"]]
        assert use.low <= size + rounding, f"{about}: {found[0]}"
        if size < 2 * use.high:  # more: XLA kept the whole array in VMEM and counts it here
            assert size <= use.high + rounding, f"{about}: {found[0]}"


def large(choose: random.Random) -> Kernel:
    """Windows about as large as what a kernel gets."""
    limit = choose.choice((None, None, None, 48 << 20, 200 << 20))
    return windows(choose, limit=limit, largest=1 << 23)


@pytest.mark.compiler
@pytest.mark.parametrize("target", TPUS)
def test_what_is_refused_does_not_fit(target: str) -> None:
    for kernel in samples(4, large):
        found, words = refuted(verdicts(kernel, target)), refusal(kernel, target)
        if "vmem-overflow" in found:
            assert any(part in words for part in _ABOUT_MEMORY), f"{kernel.words} on {target}: {words[:200]}"
        assert words or not found, f"{kernel.words} on {target}: taken, but {found}"


def product(choose: random.Random) -> Kernel:
    """A matrix product of whole blocks, or in a loop over the contracted axis."""
    m, n, k = choose.choice((32, 64, 128)), choose.choice((32, 64, 128)), choose.choice((64, 128, 512, 1024, 2048))
    steps, dtype = choose.choice((1, 1, 4)), jnp.dtype(choose.choice(("bfloat16", "float16", "float32")))
    stages, computed = choose.choice((1, 2, 4)), choose.random() < 0.3
    x, y = jax.ShapeDtypeStruct((m * 2, k * steps), dtype), jax.ShapeDtypeStruct((k * steps, n), dtype)

    def kernel(x_ref: jax.Array, y_ref: jax.Array, o_ref: jax.Array) -> None:
        def step(i: jax.Array, total: jax.Array) -> jax.Array:
            a, b = x_ref[:, pl.ds(i * k, k)], y_ref[pl.ds(i * k, k), :]
            return total + jnp.dot(a * 2 if computed else a, b, preferred_element_type=jnp.float32)

        if steps == 1:
            a = x_ref[...] * 2 if computed else x_ref[...]
            o_ref[...] = jnp.dot(a, y_ref[...], preferred_element_type=jnp.float32)
        else:
            o_ref[...] = jax.lax.fori_loop(0, steps, step, jnp.zeros((m, n), jnp.float32))

    def run(x: jax.Array, y: jax.Array) -> jax.Array:
        return pl.pallas_call(
            kernel,
            out_shape=jax.ShapeDtypeStruct((m * 2, n), jnp.float32),
            grid=(2,),
            in_specs=[pl.BlockSpec((m, k * steps), lambda i: (i, 0)), pl.BlockSpec(y.shape, lambda i: (0, 0))],
            out_specs=pl.BlockSpec((m, n), lambda i: (i, 0)),
            compiler_params=plt.CompilerParams(num_stages=stages),
        )(x, y)

    return Kernel(f"{dtype} ({m}, {k}) x ({k}, {n}), {steps} steps, {stages} stages, {computed}", run, (x, y))


@pytest.mark.compiler
@pytest.mark.parametrize("target", ["a100", "h100", "b200"])
def test_products_in_shared_memory(target: str) -> None:
    for kernel in samples(3, product):
        found, words = verdicts(kernel, target), refusal(kernel, target)
        requested = re.search(r"Shared memory size limit exceeded: requested (\d+)", words)
        if requested is not None:
            use = ledger(kernel, target)
            assert use.low <= int(requested[1]), f"{kernel.words} on {target}: {use} {words[:200]}"
        assert words or not refuted(found), f"{kernel.words} on {target}: taken, but {found}"
        noticed = requested or "Tensor memory size limit exceeded" in words
        assert noticed or "shared-memory-overflow" not in refuted(found), f"{kernel.words} on {target}: {words[:200]}"


def table(choose: random.Random) -> Kernel:
    """A table of scalars, prefetched, about as large as SMEM."""
    columns = choose.choice((1, 3, 8, 100, 128, 130, 512))
    padded = -(-columns // 128) * 128
    rows = max((1 << 20) // (4 * padded) + choose.choice((-40, -4, -1, 0, 1, 40)), 1)
    shape = choose.choice(((rows, columns), (rows * padded,), (2, max(rows // 2, 1), columns)))
    data = jax.ShapeDtypeStruct((64, 128), jnp.float32)

    def kernel(table_ref: jax.Array, x_ref: jax.Array, o_ref: jax.Array) -> None:
        o_ref[...] = x_ref[...] + table_ref[(0,) * len(shape)].astype(jnp.float32)

    def run(words: jax.Array, x: jax.Array) -> jax.Array:
        spec = pl.BlockSpec((8, 128), lambda i, table_ref: (i, 0))
        grid = pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=1, grid=(8,), in_specs=[spec], out_specs=spec)
        return pl.pallas_call(kernel, out_shape=data, grid_spec=grid)(words, x)

    return Kernel(f"table {shape}", run, (jax.ShapeDtypeStruct(shape, jnp.int32), data))


@pytest.mark.compiler
@pytest.mark.parametrize("target", TPUS)
def test_tables_in_scalar_memory(target: str) -> None:
    for kernel in samples(4, table):
        found, words = verdicts(kernel, target), refusal(kernel, target)
        assert words or "smem-overflow" not in refuted(found), f"{kernel.words} on {target}: taken, but {found}"
        if "smem" in words:
            assert "smem-overflow" in found, f"{kernel.words} on {target}: not noticed: {words[:200]}"


@pytest.mark.compiler
@pytest.mark.parametrize("target", ["tpu-v2", "tpu-v3", "tpu-v4"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize(("operands", "rows"), [(1, 3072), (1, 4096), (2, 2048), (2, 3072), (3, 2048), (3, 3072)])
def test_16_bits_that_old_chips_widen(operands: int, rows: int, dtype: str, target: str) -> None:
    """They are written out to VMEM, which no window shows: left open where that may not fit."""
    rows = rows * 2 // jnp.dtype(dtype).itemsize
    block = jax.ShapeDtypeStruct((rows, 512), jnp.dtype(dtype))

    def kernel(*refs: jax.Ref) -> None:
        *inputs, result = refs
        result[...] = sum((x[...] for x in inputs[1:]), inputs[0][...] * 2)

    run = pl.pallas_call(kernel, out_shape=block)
    summed = Kernel(f"{operands} of {rows} rows of {dtype}", run, (block,) * operands)
    said, refused = verdicts(summed, target).get("vmem-overflow"), refusal(summed, target)
    assert said != "refuted" or refused, f"{summed.words} on {target}: {said}, but taken"
    assert said or "memory space vmem" not in refused, f"{summed.words} on {target}: not noticed: {refused[:200]}"
    assert not said or dtype == "bfloat16"


@pytest.mark.compiler
@pytest.mark.parametrize(("target", "mebibytes"), [("tpu-v4", 16), ("tpu-v6e", 128), ("tpu-7x", 64)])
@pytest.mark.parametrize("more", [False, True])
def test_scratch_that_nobody_looks_into_must_fit_by_itself(target: str, mebibytes: int, more: bool) -> None:
    """The compiler drops it, but not before it has asked for more memory than the chip has."""
    rows = (mebibytes + (1 if more else -1)) * 2**20 // 512

    def kernel(x: jax.Ref, o: jax.Ref, unused: jax.Ref) -> None:
        unused[0:8, :] = x[...]
        o[...] = x[...]

    def run(x: jax.Array) -> jax.Array:
        return pl.pallas_call(kernel, out_shape=x, scratch_shapes=[pltpu.VMEM((rows, 128), jnp.float32)])(x)

    unused = Kernel(f"{rows} rows", run, (jax.ShapeDtypeStruct((8, 128), jnp.float32),))
    assert refuted(verdicts(unused, target)) == ({"vmem-overflow"} if more else set())
    assert bool(refusal(unused, target)) == more
