"""Copies between every two spaces, types and shapes: the rules refuse what the compiler refuses, and nothing else."""

import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import PartitionSpec as P
from sweeps_common import Kernel, refusal, refuted, verdicts

from typedpallas import chips
from typedpallas.compilers.ambient import described_mesh

RULES = {"copy-space-pair", "copy-shape-mismatch", "dtype-mismatch", "semaphore-as-data"}
SPACES: dict[str, Any] = {"ANY": None, "VMEM": pltpu.VMEM, "SMEM": pltpu.SMEM}


LOOSE = {*RULES, "unaligned-slice"}


def sliced(
    given: Any, made: Any, views: Callable[[Any, Any, Any], tuple[Any, Any]], space: Any = pltpu.VMEM
) -> Kernel:
    """A copy between what ``views`` makes of an array in HBM, of a buffer and of a table of numbers."""

    def body(table, x, o, buffer, done):
        o[...] = jnp.zeros_like(o)
        copy = pltpu.make_async_copy(*views(x, buffer, table), done)
        copy.start()
        copy.wait()

    def run(table, x):
        return pl.pallas_call(
            body,
            out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32),
            in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec(memory_space=pl.ANY)],
            scratch_shapes=[space(*made), pltpu.SemaphoreType.DMA],
        )(table, x)

    return Kernel(f"{given} to {made}", run, (jax.ShapeDtypeStruct((8,), jnp.int32), jax.ShapeDtypeStruct(*given)))


def copied(source: str, target: str, given: tuple[Any, Any], made: tuple[Any, Any]) -> Kernel:
    """A kernel that copies from a buffer of one shape and type to one of another."""

    def body(x, o, *scratch):
        buffers = list(scratch[:-1])
        begin = x if source == "ANY" else buffers.pop(0)
        copy = pltpu.make_async_copy(begin, o if target == "ANY" else buffers.pop(0), scratch[-1])
        copy.start()
        copy.wait()

    scratch = [SPACES[name](*what) for name, what in ((source, given), (target, made)) if name != "ANY"]

    def run(x):
        anywhere = pl.BlockSpec(memory_space=pl.ANY)
        return pl.pallas_call(
            body,
            out_shape=jax.ShapeDtypeStruct(*made),
            in_specs=[anywhere],
            out_specs=anywhere,
            scratch_shapes=[*scratch, pltpu.SemaphoreType.DMA],
        )(x)

    return Kernel(f"{given} in {source} to {made} in {target}", run, (jax.ShapeDtypeStruct(*given),))


def _agree(kernel: Kernel, target: str) -> None:
    said = refuted(verdicts(kernel, target)) & LOOSE
    refused = refusal(kernel, target)
    assert bool(said) == bool(refused), f"{kernel.words} on {target}: {said} against {refused or 'accepted'}"


@pytest.mark.parametrize("target", ["tpu-v3", "tpu-v4", "tpu-7x"])
@pytest.mark.parametrize(("source", "target_space"), list(itertools.product(SPACES, SPACES)))
def test_pairs_of_spaces(source: str, target_space: str, target: str) -> None:
    what = ((8, 128), jnp.int32)
    _agree(copied(source, target_space, what, what), target)


@pytest.mark.parametrize("target", ["tpu-v2", "tpu-v3", "tpu-v4"])
@pytest.mark.parametrize(
    ("space", "dtype", "devices"),
    [
        ("ANY", jnp.float32, 4),
        ("VMEM", jnp.float32, 4),
        ("VMEM", jnp.bfloat16, 4),
        ("SMEM", jnp.int32, 4),
        ("VMEM", jnp.float32, 1),
    ],
)
def test_to_another_device(space: str, dtype: Any, devices: int, target: str) -> None:
    """Through a buffer, whose like on the next device it fills."""

    def body(x, o, buffer, sent, came):
        there = jax.lax.rem(jax.lax.axis_index("x") + 1, devices)
        begin, end = (x, o) if space == "ANY" else (buffer.at[0], buffer.at[1])
        copy = pltpu.make_async_remote_copy(begin, end, sent, came, device_id={"x": there})
        copy.start()
        copy.wait()

    def shard(x):
        anywhere = pl.BlockSpec(memory_space=pl.ANY)
        buffer = (SPACES[space] or pltpu.VMEM)((2, 8, 128), dtype)
        return pl.pallas_call(
            body,
            out_shape=jax.ShapeDtypeStruct((8, 128), dtype),
            in_specs=[anywhere],
            out_specs=anywhere,
            scratch_shapes=[buffer, *[pltpu.SemaphoreType.DMA] * 2],
        )(x)

    mesh = described_mesh(chips.get(target), (devices,), ("x",))
    run = jax.shard_map(shard, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)
    given = jax.ShapeDtypeStruct((devices * 8, 128), dtype)
    _agree(Kernel(f"{space} {dtype.__name__} to another device", run, (given,)), target)


@pytest.mark.parametrize(
    ("given", "made"),
    [
        (jnp.float32, jnp.bfloat16),
        (jnp.float32, jnp.int32),
        (jnp.bfloat16, jnp.float16),
        (jnp.int8, jnp.uint8),
        (jnp.uint32, jnp.int32),
        (jnp.int8, jnp.float8_e4m3fn),
    ],
)
def test_pairs_of_types(given: Any, made: Any) -> None:
    _agree(copied("ANY", "VMEM", ((32, 128), given), ((32, 128), made)), "tpu-v6e")


@pytest.mark.parametrize(
    ("given", "made"),
    [((16, 128), (8, 128)), ((8, 128), (1024,)), ((1, 8, 128), (8, 128)), ((8, 128), (1, 128)), ((2, 8, 128),) * 2],
)
def test_pairs_of_shapes(given: tuple[int, ...], made: tuple[int, ...]) -> None:
    _agree(copied("ANY", "VMEM", (given, jnp.float32), (made, jnp.float32)), "tpu-v5e")


@pytest.mark.parametrize("columns", [128, 256])
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.int8])
@pytest.mark.parametrize(("start", "size"), [(0, 1), (0, 2), (0, 4), (0, 8), (4, 32), (8, 32), (32, 32)])
def test_sizes_that_are_known_only_when_it_runs(start: int, size: int, dtype: Any, columns: int) -> None:
    def views(x: Any, buffer: Any, table: Any) -> tuple[Any, Any]:
        rows = table[0] * size
        return x.at[pl.ds(start, rows)], buffer.at[pl.ds(0, rows)]

    _agree(sliced(((128, columns), dtype), ((128, columns), dtype), views), "tpu-v5e")


@pytest.mark.parametrize("dtype", [jnp.int32, jnp.bfloat16, jnp.int8])
@pytest.mark.parametrize(("start", "size"), [(0, 4), (2, 2), (1, 1), (4, 4), (1, 7), (6, 2), (3, None)])
def test_rows_in_scalar_memory(start: int, size: int | None, dtype: Any) -> None:
    def views(x: Any, buffer: Any, table: Any) -> tuple[Any, Any]:
        return x, buffer.at[start if size is None else pl.ds(start, size)]

    given = (128,) if size is None else (size, 128)
    _agree(sliced((given, dtype), ((8, 128), dtype), views, pltpu.SMEM), "tpu-v5e")


@pytest.mark.parametrize(("start", "size", "columns"), [(0, 64, 128), (64, 64, 128), (128, 128, 256), (128, 72, 200)])
def test_lanes_in_scalar_memory(start: int, size: int, columns: int) -> None:
    def views(x: Any, buffer: Any, table: Any) -> tuple[Any, Any]:
        return x, buffer.at[:, pl.ds(start, size)]

    _agree(sliced(((8, size), jnp.int32), ((8, columns), jnp.int32), views, pltpu.SMEM), "tpu-v5e")


@pytest.mark.parametrize("columns", [64, 128, 256])
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
@pytest.mark.parametrize(("start", "size"), [(0, 2), (0, 1), (1, 2), (2, 2), (8, 8), (None, 8), (0, 64)])
def test_rows_on_an_old_chip(start: int | None, size: int, dtype: Any, columns: int) -> None:
    """Copies that cut neither words nor, otherwise, tiles."""
    if dtype == jnp.bfloat16 and (start == 1 or size == 1):
        pytest.skip("half a word anywhere")

    def views(x: Any, buffer: Any, table: Any) -> tuple[Any, Any]:
        return x.at[pl.ds(table[0] * 8 if start is None else start, size)], buffer

    _agree(sliced(((64, columns), dtype), ((size, columns), dtype), views), "tpu-v3")


@pytest.mark.parametrize("columns", [128, 256])
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.int8])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((8, 24), (5, 8)),
        ((8, 24), (20, 4)),
        ((8, 24), (3, 4)),
        ((8, 24), (12, 12)),
        ((8, 20), (16, 4)),
        ((16, 24), (6, 8)),
        ((32, 64), (32, 32)),
        ((4, 28), (4, 8)),
    ],
)
def test_views_of_views(first: tuple[int, int], second: tuple[int, int], dtype: Any, columns: int) -> None:
    def views(x: Any, buffer: Any, table: Any) -> tuple[Any, Any]:
        return x.at[pl.ds(*first)].at[pl.ds(*second)], buffer

    _agree(sliced(((128, columns), dtype), ((second[1], columns), dtype), views), "tpu-v5e")


@pytest.mark.parametrize("target", ["tpu-v2", "tpu-v3", "tpu-v4"])
@pytest.mark.parametrize("columns", [100, 128, 256])
@pytest.mark.parametrize("space", [pltpu.VMEM, pltpu.SMEM])
@pytest.mark.parametrize("rows", [1, 3, 4])
def test_whole_arrays_on_an_old_chip(rows: int, space: Any, columns: int, target: str) -> None:
    what = ((rows, columns), jnp.int32)
    _agree(sliced(what, what, lambda x, buffer, table: (x, buffer), space), target)


@pytest.mark.parametrize("target", ["tpu-v2", "tpu-v4"])
@pytest.mark.parametrize("columns", [128, 256])
@pytest.mark.parametrize("end", ["array", "buffer"])
@pytest.mark.parametrize("start", [0, 1, None])
def test_single_rows_on_an_old_chip(start: int | None, end: str, columns: int, target: str) -> None:
    """What an integer takes out of rows, as a row of ``o.at[i]``."""

    def views(x: Any, buffer: Any, table: Any) -> tuple[Any, Any]:
        row = table[0] if start is None else start
        return (x.at[row], buffer) if end == "array" else (x, buffer.at[row])

    shapes = ((16, columns), (columns,)) if end == "array" else ((columns,), (16, columns))
    _agree(sliced((shapes[0], jnp.float32), (shapes[1], jnp.float32), views), target)


@pytest.mark.parametrize("columns", [128, 256])
@pytest.mark.parametrize(
    ("dtype", "start", "size"),
    [
        *((jnp.float32, 0, 1), (jnp.float32, 2, 3), (jnp.float32, 1, 2), (jnp.float32, None, 1)),
        *((jnp.bfloat16, 0, 2), (jnp.bfloat16, 2, 4), (jnp.bfloat16, 0, 6), (jnp.int8, 0, 4), (jnp.int8, 4, 8)),
    ],
)
def test_rows_of_a_buffer_on_an_old_chip(dtype: Any, start: int | None, size: int, columns: int) -> None:
    if columns == 256 and dtype != jnp.float32 and start:
        pytest.skip("a slice across tiles, anywhere")

    def views(x: Any, buffer: Any, table: Any) -> tuple[Any, Any]:
        return x, buffer.at[pl.ds(table[0] * 8 if start is None else start, size)]

    _agree(sliced(((size, columns), dtype), ((64, columns), dtype), views), "tpu-v2")


@pytest.mark.parametrize("end", ["array", "buffer"])
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
@pytest.mark.parametrize(("start", "size"), [(128, 128), (0, 256), (256, 256), (512, 512), (256, 512), (None, 512)])
def test_arrays_of_one_dim_on_an_old_chip(start: int | None, size: int, dtype: Any, end: str) -> None:
    if dtype == jnp.bfloat16 and start == 128:
        pytest.skip("half a unit, anywhere")

    def views(x: Any, buffer: Any, table: Any) -> tuple[Any, Any]:
        part = pl.ds(table[0] * 512 if start is None else start, size)
        return (x.at[part], buffer) if end == "array" else (x, buffer.at[part])

    shapes = ((2048,), (size,)) if end == "array" else ((size,), (2048,))
    _agree(sliced((shapes[0], dtype), (shapes[1], dtype), views), "tpu-v2")


@pytest.mark.parametrize("target", ["tpu-v3", "tpu-v4"])
@pytest.mark.parametrize("end", ["array", "buffer"])
@pytest.mark.parametrize(("rows", "lanes"), [(1, 128), (1, 256), (3, 128), (3, 256), (4, 128)])
def test_lanes_of_few_rows_on_an_old_chip(rows: int, lanes: int, end: str, target: str) -> None:
    def views(x: Any, buffer: Any, table: Any) -> tuple[Any, Any]:
        part = (slice(None), pl.ds(128, lanes))
        return (x.at[part], buffer) if end == "array" else (x, buffer.at[part])

    shapes = ((rows, 512), (rows, lanes)) if end == "array" else ((rows, lanes), (rows, 512))
    _agree(sliced((shapes[0], jnp.float32), (shapes[1], jnp.float32), views), target)


@pytest.mark.parametrize("target", ["tpu-v2", "tpu-v4"])
@pytest.mark.parametrize("end", ["array", "buffer"])
@pytest.mark.parametrize(
    ("dtype", "rows", "start"),
    [
        *((jnp.float32, 9, 4), (jnp.float32, 11, 4), (jnp.float32, 9, 7), (jnp.float32, 11, 7)),
        *((jnp.float32, 11, 8), (jnp.float32, 21, 10), (jnp.float32, 11, 10)),
        *((jnp.bfloat16, 10, 4), (jnp.bfloat16, 14, 4), (jnp.int8, 20, 12), (jnp.int8, 36, 28)),
    ],
)
def test_rows_that_end_with_the_array(dtype: Any, rows: int, start: int, end: str, target: str) -> None:
    """They are taken with the array's padding, in one tile or in equal pieces of two."""

    def views(x: Any, buffer: Any, table: Any) -> tuple[Any, Any]:
        part = pl.ds(start, rows - start)
        return (x.at[part], buffer) if end == "array" else (x, buffer.at[part])

    shapes = ((rows, 256), (rows - start, 256)) if end == "array" else ((rows - start, 256), (rows, 256))
    _agree(sliced((shapes[0], dtype), (shapes[1], dtype), views), target)


@pytest.mark.parametrize("target", ["tpu-v3", "tpu-v4"])
@pytest.mark.parametrize("rows", [4, 8])
def test_all_rows_from_a_start_that_only_data_tells(rows: int, target: str) -> None:
    def views(x: Any, buffer: Any, table: Any) -> tuple[Any, Any]:
        return x, buffer.at[pl.ds(table[0] * 64, rows)]

    _agree(sliced(((rows, 128), jnp.int8), ((rows, 128), jnp.int8), views), target)
