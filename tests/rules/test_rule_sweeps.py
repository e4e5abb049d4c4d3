"""Rules against the vendors' compilers over small spaces of kernels: what is refuted is refused, and what compiles
is not refuted."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.experimental.pallas import tpu as pltpu

import typedpallas as tp
from typedpallas import compilers

pytestmark = pytest.mark.compiler

S = jax.ShapeDtypeStruct
f32, bf16, i32, i8 = jnp.float32, jnp.bfloat16, jnp.int32, jnp.int8
type Kernel = tuple[str, Callable[..., Any], tuple[Any, ...]]

CONTENT = {"result-never-stored", "read-before-write"}
"""Rules about what memory holds: no compiler judges that, and these kernels store to a part of their result."""


def _compare(kernels: Iterator[Kernel], target: str, *, exact: bool) -> None:
    """Hold each kernel's verdict against the compiler's; ``exact`` also wants every refusal predicted."""
    kernels = list(kernels)
    requests = [compilers.Request(fn=fn, avals=args, target=target) for _, fn, args in kernels]
    outcomes = compilers.compile_many(requests)
    wrong, refused = [], 0
    for (name, fn, args), outcome in zip(kernels, outcomes, strict=True):
        if isinstance(outcome, tp.CompileError) and outcome.kind == "unavailable":
            pytest.skip(str(outcome))
        said = tp.check(fn, *args, target=target).diagnostics
        flagged = any(item.verdict == "refuted" and item.rule not in CONTENT for item in said)
        accepted = not isinstance(outcome, tp.CompileError)
        refused += not accepted
        if flagged == accepted and (accepted or exact):
            wrong.append(
                f"{name}: {'flagged' if flagged else 'passed'}, compiler: {outcome if not accepted else 'ok'}"
            )
    assert wrong == []
    assert 0 < refused < len(kernels), "the sweep must have both kinds"


TPU_SPACES = {"VMEM": pltpu.VMEM, "SMEM": pltpu.SMEM, "HBM": pltpu.HBM, "ANY": pl.ANY}
INDICES = {
    "scalar": (0, 1),
    "row of one": (0, slice(1, 2)),
    "row": (0, slice(0, 128)),
    "rows": (slice(0, 8), slice(0, 128)),
}


def _accesses(dtypes: tuple[Any, ...]) -> Iterator[Kernel]:
    """One load from, or one store to, an operand in each space."""
    for (space, where), (what, index), dtype in itertools.product(TPU_SPACES.items(), INDICES.items(), dtypes):
        spec, vmem = pl.BlockSpec(memory_space=where), pl.BlockSpec(memory_space=pltpu.VMEM)
        shape = S((32, 128), dtype)

        def load(x, o, index=index, scalar=what == "scalar"):
            if scalar:
                o[...] = jnp.full((32, 128), x[index])
            else:
                o[index] = x[index]

        def store(x, o, index=index):
            o[index] = x[index]

        yield (
            f"load {what} {space} {dtype.__name__}",
            pl.pallas_call(load, out_shape=shape, in_specs=[spec]),
            (shape,),
        )
        yield (
            f"store {what} {space} {dtype.__name__}",
            pl.pallas_call(store, out_shape=shape, in_specs=[vmem], out_specs=spec),
            (shape,),
        )


@pytest.mark.parametrize("target", ["tpu-v4", "tpu-v5e", "tpu-7x"])
def test_loads_and_stores_on_tpu(target: str) -> None:
    _compare(_accesses((f32, i32)), target, exact=True)


def _placements() -> Iterator[Kernel]:
    """A buffer in every space, as an operand and as scratch; nothing touches it."""
    x = S((128, 128), f32)
    spaces = [*pltpu.MemorySpace, *plgpu.MemorySpace]
    for space in spaces:

        def operand(x, o):
            o[...] = jnp.zeros_like(o)

        def scratch(x, o, buffer):
            o[...] = x[...]

        if space.name == "SEMAPHORE":
            continue
        spec = pl.BlockSpec(memory_space=space)
        yield f"operand {space}", pl.pallas_call(operand, out_shape=x, in_specs=[spec]), (x,)
        if space.name not in ("HBM", "GMEM"):
            yield (
                f"scratch {space}",
                pl.pallas_call(scratch, out_shape=x, scratch_shapes=[space((128, 128), f32)]),
                (x,),
            )


@pytest.mark.parametrize("target", ["tpu-v4", "tpu-v5e", "tpu-7x", "h100"])
def test_spaces_on_each_machine(target: str) -> None:
    _compare(_placements(), target, exact=target != "tpu-7x")


def _sizes() -> Iterator[Kernel]:
    """Arrays of many sizes, loaded, stored, reduced and scanned in Triton kernels."""
    for rows, columns in itertools.product((1, 3, 4, 8), (16, 96, 128)):
        shape = S((rows, columns), f32)

        def moved(x, o):
            o[...] = x[...] * 2.0

        def part(x, o, columns=columns):
            o[0, 0:16] = x[0, 0:16]

        def reduced(x, o, rows=rows, columns=columns):
            total = jnp.sum(jax.lax.broadcasted_iota(f32, (rows, columns), 0))
            o[0, 0:16] = jnp.full((16,), total)

        for name, kernel in (("moved", moved), ("part", part), ("reduced", reduced)):
            yield f"{name} {rows}x{columns}", pl.pallas_call(kernel, out_shape=shape), (shape,)


@pytest.mark.parametrize("target", ["a100", "h100"])
def test_sizes_in_triton(target: str) -> None:
    _compare(_sizes(), target, exact=True)


TYPES = (f32, bf16, jnp.float16, i8, jnp.int4, jnp.uint8, jnp.int16, i32, jnp.float8_e4m3fn, jnp.float8_e5m2)


def _products() -> Iterator[Kernel]:
    """Matrix products of each element type, with both widths of the result, at each precision."""
    for kind, narrow, precision in itertools.product(TYPES, (False, True), (None, "HIGHEST")):
        whole = jnp.issubdtype(kind, jnp.integer)
        if narrow and kind not in (f32, bf16):
            continue
        result = bf16 if narrow else i32 if whole else f32
        wanted = precision and jax.lax.Precision[precision]

        def kernel(x, y, o, result=result, wanted=wanted):
            o[...] = jnp.dot(x[...], y[...], preferred_element_type=result, precision=wanted)

        square = S((128, 128), kind)
        name = f"{jnp.dtype(kind).name} to {jnp.dtype(result).name} {precision}"
        yield name, pl.pallas_call(kernel, out_shape=S((128, 128), result)), (square, square)


@pytest.mark.parametrize("target", ["tpu-v4", "tpu-v5e", "tpu-7x"])
def test_matrix_products_on_tpu(target: str) -> None:
    _compare(_products(), target, exact=True)


def _mixed_products() -> Iterator[Kernel]:
    for left, right in itertools.product((f32, bf16, jnp.float16, i8), repeat=2):
        whole = jnp.issubdtype(left, jnp.integer) and jnp.issubdtype(right, jnp.integer)
        result = i32 if whole else f32

        def kernel(x, y, o, result=result):
            o[...] = jax.lax.dot_general(x[...], y[...], (((1,), (0,)), ((), ())), preferred_element_type=result)

        name = f"{jnp.dtype(left).name} by {jnp.dtype(right).name}"
        yield name, pl.pallas_call(kernel, out_shape=S((32, 32), result)), (S((32, 32), left), S((32, 32), right))


def test_matrix_products_in_triton() -> None:
    _compare(_mixed_products(), "h100", exact=True)


def _indices() -> Iterator[Kernel]:
    """Rows chosen by indices of each element type."""
    for kind in (i32, jnp.int8, jnp.int16, jnp.uint32, f32, bf16, jnp.bool_):

        def kernel(rows, x, o, kind=kind):
            o[...] = x[...]
            o[0] = x[rows[0].astype(kind)]

        specs = [pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec()]
        args = (S((8,), i32), S((8, 128), f32))
        yield jnp.dtype(kind).name, pl.pallas_call(kernel, out_shape=S((8, 128), f32), in_specs=specs), args


def test_index_types_on_tpu() -> None:
    _compare(_indices(), "tpu-v5e", exact=True)


OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "slice": lambda v: jnp.broadcast_to(v[0:1], v.shape),
    "exp": jnp.exp,
    "erf_inv": jax.lax.erf_inv,
    "sort": lambda v: jnp.sort(v, axis=1),
    "cumsum": lambda v: jnp.cumsum(v, axis=1),
    "rev": lambda v: v[::-1],
    "igamma": lambda v: jax.lax.igamma(v, v),
    "sin": jnp.sin,
    "round": jnp.round,
    "transpose": lambda v: v.T.T,
    "lgamma": jax.lax.lgamma,
    "nextafter": lambda v: jnp.nextafter(v, v),
    "top_k": lambda v: jnp.broadcast_to(jax.lax.top_k(v, 1)[0], v.shape),
    "fft": lambda v: jnp.fft.fft(v).real,
    "where": lambda v: jnp.where(v > 0, v, 0.0),
    "clip": lambda v: jnp.clip(v, 0.0, 1.0),
    "logsumexp": lambda v: jnp.broadcast_to(jax.nn.logsumexp(v, axis=1, keepdims=True), v.shape),
    "gelu": jax.nn.gelu,
    "population_count": lambda v: jax.lax.population_count(v.astype(i32)).astype(f32),
}


def _operations() -> Iterator[Kernel]:
    x = S((8, 128), f32)
    for name, function in OPERATIONS.items():

        def kernel(x, o, function=function):
            o[...] = function(x[...])

        yield name, pl.pallas_call(kernel, out_shape=x), (x,)


@pytest.mark.parametrize("target", ["tpu-v5e", "h100"])
def test_operations_against_the_lowering_tables(target: str) -> None:
    _compare(_operations(), target, exact=False)
