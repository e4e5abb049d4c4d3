"""The Hopper kernels: their work is divided completely, the compiler takes them without spills, numbers are right."""

import functools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import typedpallas as tp
from typedpallas import compilers
from typedpallas.kernels import grouped_matmul as public_grouped_matmul
from typedpallas.kernels import matmul as public_matmul
from typedpallas.kernels.gpu import rows
from typedpallas.kernels.gpu.attention import attention
from typedpallas.kernels.gpu.attention_gradients import Options, attention_backward, differentiable_attention
from typedpallas.kernels.gpu.attention_parts import MASKED
from typedpallas.kernels.gpu.attention_tuning import AttentionTuning, Work, schedule
from typedpallas.kernels.gpu.grouped_matmul import grouped_matmul
from typedpallas.kernels.gpu.matmul import matmul
from typedpallas.kernels.gpu.matmul_tuning import MatmulTuning
from typedpallas.kernels.gpu.rows_backward import RowBackwardTuning, norm_backward

RANDOM = np.random.default_rng(5)
_FEW_BYTES = 16
"""Of one thread: a spill that no loop notices."""
ROWS: dict[str, tuple[Callable[..., jax.Array], int]] = {
    "softmax": (rows.softmax_row, 0),
    "rms_norm": (functools.partial(rows.rms_norm_row, 1e-5), 1),
    "layer_norm": (functools.partial(rows.layer_norm_row, 1e-5), 2),
}


@pytest.fixture(autouse=True, scope="module")
def no_process_left() -> Iterator[None]:
    yield
    compilers.shutdown()


def taken_without_spills(fn: Callable[..., Any], *shapes: Any, target: str = "h200", most: int = _FEW_BYTES) -> None:
    try:
        compiled = tp.compile(fn, *shapes, target=target)
    except tp.CompileError as error:
        if error.kind == "unavailable":
            pytest.skip(str(error))
        raise
    said = [kernel for kernel in compiled.kernels if kernel.registers is not None]
    assert said and not any(kernel.serialized or (kernel.spilled or 0) > most for kernel in said)


def array(dtype: str, *shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.dtype(dtype))


@given(
    heads=st.integers(1, 40),
    tiles=st.integers(1, 40),
    blocks=st.integers(1, 140),
    causal=st.booleans(),
    block_k=st.sampled_from([64, 128]),
)
@settings(max_examples=60, deadline=None)
def test_every_tile_of_queries_has_one_block(heads: int, tiles: int, blocks: int, causal: bool, block_k: int) -> None:
    work = Work(heads, tiles * 128, tiles * 128, 128, block_k, causal, 2 * tiles * 128 * 128 * 2)
    table = schedule(work, blocks)
    assert (table[:, -1, 0] == -1).all()
    numbers = table[..., 0][table[..., 0] >= 0]
    assert sorted(numbers) == list(range(heads * tiles))
    for number, steps, end in table[table[..., 0] >= 0]:
        assert steps == end == (-(-(number % tiles + 1) * 128 // block_k) if causal else tiles * 128 // block_k)
    loads = np.where(table[..., 0] >= 0, table[..., 1] + 1, 0).sum(axis=1)
    assert loads.max() - loads.min() <= work.steps(tiles - 1) + 1


@pytest.mark.parametrize("cluster", [None, "m", "n"])
def test_matmul_numbers(cluster: Any) -> None:
    tuning = MatmulTuning(tile_n=128, stages=2, lag=1, cluster=cluster, bare=True)
    a = jnp.asarray(RANDOM.standard_normal((256, 192)), jnp.bfloat16)
    b = jnp.asarray(RANDOM.standard_normal((192, 256)), jnp.bfloat16)
    found = matmul(a, b, out_dtype=jnp.float32, tuning=tuning)
    np.testing.assert_allclose(found, np.asarray(a, np.float32) @ np.asarray(b, np.float32), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("shape", [(128, 128, 128), (100, 200, 72), (300, 64, 200)])
def test_matmul_finishes_its_sums_and_reaches_over_the_ends(shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    a, b, bias = (jnp.asarray(RANDOM.standard_normal(s), "bfloat16") for s in ((m, k), (k, n), (n,)))
    found = matmul(a, b, bias=bias, finish=jax.nn.silu, out_dtype=jnp.float32)
    wide = [x.astype(jnp.float32) for x in (a, b, bias)]
    np.testing.assert_allclose(found, jax.nn.silu(wide[0] @ wide[1] + wide[2]), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", ROWS)
def test_row_numbers(name: str, dtype: str) -> None:
    work, count = ROWS[name]
    x = jnp.asarray(RANDOM.standard_normal((5, 1024)), dtype)
    parameters = [jnp.asarray(RANDOM.standard_normal(1024), dtype) for _ in range(count)]
    found = np.asarray(rows.apply(work, x, parameters, None), np.float32)
    wide = [np.asarray(array, np.float32) for array in (x, *parameters)]
    np.testing.assert_allclose(found, by_numpy(name, *wide), rtol=1e-2, atol=2e-2 if dtype == "bfloat16" else 1e-5)


def by_numpy(name: str, x: np.ndarray, *parameters: np.ndarray) -> np.ndarray:
    if name == "softmax":
        weights = np.exp(x - x.max(axis=-1, keepdims=True))
        return weights / weights.sum(axis=-1, keepdims=True)
    if name == "rms_norm":
        return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5) * parameters[0]
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5) * parameters[0] + parameters[1]


@pytest.mark.compiler
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("target", ["h100", "h200"])
def test_the_compiler_takes_matmul(target: str, dtype: str) -> None:
    taken_without_spills(matmul, array(dtype, 4096, 4096), array(dtype, 4096, 4096), target=target)


@pytest.mark.compiler
@pytest.mark.parametrize("activation", [jax.nn.gelu, jax.nn.silu, jax.nn.relu, jnp.tanh])
def test_the_compiler_takes_what_finishes_a_product(activation: Any) -> None:
    run = functools.partial(public_matmul, scale=0.5, activation=activation, out_dtype=jnp.float32)
    shapes = [array("bfloat16", 1000, 500), array("bfloat16", 500, 1000)]
    taken_without_spills(lambda x, y, bias: run(x, y, bias=bias), *shapes, array("bfloat16", 1000))


@pytest.mark.compiler
@pytest.mark.parametrize("cluster", ["m", "n"])
def test_the_compiler_takes_clusters(cluster: Any) -> None:
    run = functools.partial(matmul, tuning=MatmulTuning(cluster=cluster, lag=2, bare=True))
    taken_without_spills(run, array("bfloat16", 4096, 4096), array("bfloat16", 4096, 4096))


@pytest.mark.compiler
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("head_dim", [64, 128, 256])
@pytest.mark.parametrize("causal", [False, True])
def test_the_compiler_takes_attention(causal: bool, head_dim: int, dtype: str) -> None:
    shapes = [array(dtype, 4, 4096, 16, head_dim), *[array(dtype, 4, 4096, 4, head_dim)] * 2]
    taken_without_spills(functools.partial(attention, causal=causal), *shapes)


def backward_arrays(dtype: str, head_dim: int, kv_heads: int, length: int = 4096) -> list[jax.ShapeDtypeStruct]:
    queries, keys = (array(dtype, 4, length, heads, head_dim) for heads in (16, kv_heads))
    return [queries, keys, keys, queries, array("float32", 4, 16, length), queries]


@pytest.mark.compiler
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("head_dim", [64, 128, 256])
@pytest.mark.parametrize("causal", [False, True])
def test_the_compiler_takes_attention_backward(causal: bool, head_dim: int, dtype: str) -> None:
    run = functools.partial(attention_backward, causal=causal)
    arrays = backward_arrays(dtype, head_dim, 16 if dtype == "float16" else 4)
    taken_without_spills(run, *arrays, most=96 if head_dim > 128 else _FEW_BYTES)


@pytest.mark.compiler
@pytest.mark.parametrize(("causal", "window", "segmented"), [(True, 1000, False), (False, None, True)])
def test_the_compiler_takes_masks(causal: bool, window: int | None, segmented: bool) -> None:
    q, k, v, out, lse, d_out = backward_arrays("bfloat16", 128, 4)
    ids = [array("int32", 4, 4096)] * 2 * segmented

    def forward(q: Any, k: Any, v: Any, *ids: Any) -> Any:
        return attention(q, k, v, ids or None, causal=causal, window=window)

    def backward(q: Any, k: Any, v: Any, out: Any, lse: Any, d_out: Any, *ids: Any) -> Any:
        return attention_backward(q, k, v, out, lse, d_out, ids or None, causal=causal, window=window)

    taken_without_spills(forward, q, k, v, *ids)
    taken_without_spills(backward, q, k, v, out, lse, d_out, *ids)


@given(
    tiles=st.integers(1, 12),
    block_k=st.sampled_from([64, 128]),
    window=st.one_of(st.none(), st.integers(1, 2000)),
)
@settings(max_examples=60, deadline=None)
def test_a_tile_sees_the_blocks_of_its_window(tiles: int, block_k: int, window: int | None) -> None:
    work = Work(1, tiles * 128, tiles * 128, 128, block_k, True, 1, window)
    for tile in range(tiles):
        seen = {
            key // block_k
            for query in (tile * 128, tile * 128 + 127)
            for key in range(max(0, query + 1 - (window or query + 1)), query + 1)
        }
        assert (work.end(tile) - work.steps(tile), work.end(tile)) == (min(seen), max(seen) + 1)
        assert tuple(map(int, work.seen(jnp.int32(tile)))) == (work.steps(tile), work.end(tile))


@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_attention_backward_breaks_no_rule(head_dim: int) -> None:
    for causal in (False, True):
        run = functools.partial(attention_backward, causal=causal)
        assert tp.check(run, *backward_arrays("bfloat16", head_dim, 4), target="h100").ok


def test_attention_has_gradients() -> None:
    def total(*arrays: jax.Array) -> jax.Array:
        return differentiable_attention(*arrays, None, Options())[0].astype(jnp.float32).sum()

    shapes = [array("bfloat16", 2, 256, 4, 64), *[array("bfloat16", 2, 256, 2, 64)] * 2]
    found = jax.eval_shape(jax.grad(total, (0, 1, 2)), *shapes)
    assert [(x.shape, x.dtype) for x in found] == [(x.shape, x.dtype) for x in shapes]


@pytest.mark.compiler
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", ROWS)
def test_the_compiler_takes_rows(name: str, dtype: str) -> None:
    work, count = ROWS[name]
    taken_without_spills(
        lambda x, *parameters: rows.apply(work, x, parameters, None),
        array(dtype, 16384, 8192),
        *[array(dtype, 8192)] * count,
    )


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (
            lambda: matmul(jnp.zeros((100, 64)), jnp.zeros((64, 256)), tuning=MatmulTuning()),
            "m a multiple of 128, found 100",
        ),
        (lambda: public_matmul(jnp.zeros((8, 8)), jnp.zeros((8, 4)), bias=jnp.zeros(8)), r"expected shape \(4,\)"),
        (
            lambda: public_matmul(jnp.zeros((8, 8)), jnp.zeros((8, 8)), scale=2.0, block=(8, 8, 8)),
            "`block` is for plain products",
        ),
        (lambda: attention(*[jnp.zeros((1, 96, 1, 64), jnp.float16)] * 3), "a multiple of 64 queries, found 96"),
        (
            lambda: attention_backward(*(jnp.zeros(x.shape) for x in backward_arrays("float16", 64, 4, 320))),
            "a multiple of 128 keys, found 320",
        ),
        (
            lambda: attention(jnp.zeros((1, 128, 3, 64)), *[jnp.zeros((1, 128, 2, 64))] * 2),
            "2 heads of keys do not divide 3",
        ),
        (
            lambda: attention(*[jnp.zeros((1, 128, 1, 64), jnp.float16)] * 3, window=5),
            "`window`: expected at least 1 and `causal`, found 5",
        ),
        (lambda: rows.apply(rows.softmax_row, jnp.zeros((2, 100)), (), None), "rows of 100 elements"),
        (lambda: norm_backward(*[jnp.zeros((2, 100))] * 2, jnp.zeros(100), 1, epsilon=1e-5), "rows of 100 elements"),
        (
            lambda: norm_backward(*[jnp.zeros((2, 16384), "bfloat16")] * 2, jnp.zeros(16384), 1, epsilon=1e-5),
            "rows of 16384 elements",
        ),
        (
            lambda: norm_backward(
                *[jnp.zeros((2, 1024))] * 2, jnp.zeros(1024), 1, epsilon=1e-5, tuning=RowBackwardTuning(2, 3)
            ),
            "2 warpgroups do not share out 3 slots",
        ),
    ],
)
def test_what_does_not_fit_is_refused(run: Callable[[], Any], words: str) -> None:
    with pytest.raises(tp.LaunchError, match=words):
        run()


def test_masked_blocks_cover_the_diagonal() -> None:
    for groups in (1, 2, 3):
        for block_k in (64, 128, 192):
            tuning = AttentionTuning(groups=groups, block_k=block_k)
            for tile in range(24):
                first, end = tile * tuning.tile, (tile + 1) * tuning.tile
                cut = [b for b in range(-(-end // block_k)) if (b + 1) * block_k - 1 > first]
                assert len(cut) <= tuning.masked


@pytest.mark.parametrize("head_dim", [32, 64, 80, 96, 128, 192, 256])
def test_a_masked_score_is_exact(head_dim: int) -> None:
    """A row that sees nothing yet subtracts the rounded product from the exact one: overflow, where they differ."""
    for scale in (1.0, head_dim**-0.5):
        factor = Fraction(float(np.float32(scale * math.log2(math.e))))
        exact = Fraction(float(np.float32(MASKED))) * factor
        assert exact == Fraction(float(np.float32(float(exact))))


def test_a_finished_product_anywhere() -> None:
    x, y, bias = (jnp.asarray(RANDOM.standard_normal(s), jnp.float32) for s in ((8, 16), (16, 4), (4,)))
    found = public_matmul(x, y, bias=bias, scale=0.5, activation=jax.nn.relu, out_dtype=jnp.bfloat16)
    assert found.dtype == jnp.bfloat16
    np.testing.assert_allclose(found.astype(jnp.float32), jax.nn.relu(x @ y * 0.5 + bias), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("sizes", [[70, 0, 150, 60], [300, 0, 0, 0], [1, 2, 3, 4], [0, 0, 0, 0], [8, 129, 7, 156]])
def test_grouped_matmul_numbers(sizes: list[int]) -> None:
    a, b = (jnp.asarray(RANDOM.standard_normal(shape), jnp.bfloat16) for shape in ((300, 64), (4, 64, 128)))
    found = grouped_matmul(a, b, jnp.asarray(sizes, jnp.int32), tuning=MatmulTuning(tile_n=128, stages=2, bare=True))
    ends = np.cumsum(sizes)
    expected = np.zeros((300, 128), np.float32)
    for group, (end, size) in enumerate(zip(ends, sizes, strict=True)):
        rows_of = slice(end - size, end)
        expected[rows_of] = np.asarray(a, np.float32)[rows_of] @ np.asarray(b, np.float32)[group]
    np.testing.assert_allclose(found.astype(jnp.float32), expected, rtol=1e-2, atol=1e-1)
    plain = public_grouped_matmul(*(x.astype(jnp.float32) for x in (a, b)), jnp.asarray(sizes, jnp.int32))
    np.testing.assert_allclose(plain, expected, rtol=1e-4, atol=1e-3)


@pytest.mark.compiler
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_compiler_takes_grouped_matmul(dtype: str) -> None:
    shapes = [array(dtype, 8192, 4096), array(dtype, 8, 4096, 8192), array("int32", 8)]
    taken_without_spills(public_grouped_matmul, *shapes)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("sums", [1, 2])
@pytest.mark.parametrize("tuning", [RowBackwardTuning(1, 2), RowBackwardTuning(2, 4)])
def test_gradients_of_norms(tuning: RowBackwardTuning, sums: int, dtype: str) -> None:
    d_out, x = (RANDOM.standard_normal((7, 4096)) + 0.5 for _ in range(2))
    x[3] += 100  # the variance must not drown in the mean,
    x[4, 0] = 1e4  # nor in the square of one element that stands out
    d_out, x = (jnp.asarray(array, dtype) for array in (d_out, x))
    weight = jnp.asarray(RANDOM.standard_normal(4096), dtype)
    found = norm_backward(d_out, x, weight, sums, epsilon=1e-5, tuning=tuning)

    def plain(x: jax.Array, *parameters: jax.Array) -> jax.Array:
        centred = x - x.mean(axis=1, keepdims=True) if sums > 1 else x
        normal = centred / jnp.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5)
        return normal * parameters[0] + sum(parameters[1:])

    wide = [array.astype(jnp.float32) for array in (x, weight)]
    expected = jax.vjp(plain, *wide, *[jnp.zeros(4096)] * (sums - 1))[1](d_out.astype(jnp.float32))
    for one, other in zip(found, expected, strict=True):
        tolerance = 4e-3 if one.dtype == jnp.bfloat16 else 3e-5
        for row, wanted in zip(np.atleast_2d(one.astype(jnp.float32)), np.atleast_2d(other), strict=True):
            assert np.linalg.norm(row - wanted) <= tolerance * np.linalg.norm(wanted)


@pytest.mark.compiler
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("sums", [1, 2])
def test_the_compiler_takes_gradients_of_norms(sums: int, dtype: str) -> None:
    run = functools.partial(norm_backward, sums=sums, epsilon=1e-5)
    taken_without_spills(lambda *a: run(*a), *[array(dtype, 16384, 8192)] * 2, array(dtype, 8192))


@pytest.mark.compiler
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_compiler_takes_paired_blocks(dtype: str) -> None:
    arrays = backward_arrays(dtype, 128, 16)[:3]
    taken_without_spills(functools.partial(attention, tuning=AttentionTuning(paired=True)), *arrays)
    taken_without_spills(functools.partial(attention, tuning=AttentionTuning(paired=True, groups=1)), *arrays)


def test_blocks_of_a_causal_mask_are_not_paired() -> None:
    arrays = [jnp.zeros(x.shape, x.dtype) for x in backward_arrays("float16", 64, 4, 256)[:3]]
    with pytest.raises(tp.LaunchError, match="cannot be `paired`"):
        attention(*arrays, causal=True, tuning=AttentionTuning(paired=True, block_k=64))
