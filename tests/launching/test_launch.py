"""What launches compute in interpret mode, against NumPy."""

import logging
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import samples
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import PartitionSpec as P

import typedpallas as tp
from typedpallas import BLOCK, Dim, In, Out, f32
from typedpallas.launching import choose

RANDOM = np.random.default_rng(7)
MATMUL = "(i BM) (k BK), (k BK) (j BN) -> (i BM) (j BN)"
BACKENDS = (None, "triton", "mosaic_gpu")


def normal(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def sizes(most: int) -> st.SearchStrategy[tuple[int, int]]:
    """A block size and a number of blocks."""
    return st.tuples(st.integers(1, most), st.integers(1, 3))


@settings(max_examples=12, deadline=None)
@given(
    st.tuples(st.integers(1, 2), st.integers(1, 3)), sizes(6), sizes(5), st.permutations(["i", "j"]),
)  # fmt: skip
def test_matmul_of_any_shape(m: tuple[int, int], k: tuple[int, int], n: tuple[int, int], order: list[str]) -> None:
    (bm, im), (bk, ik), (bn, jn) = (8 * m[0], m[1]), k, n
    x, y = normal(bm * im, bk * ik), normal(bk * ik, bn * jn)
    launch = tp.launch(samples.product, MATMUL, grid=" ".join([*order, "k"]))
    np.testing.assert_allclose(launch(x, y, BM=bm, BK=bk, BN=bn), x @ y, rtol=1e-4, atol=1e-4)


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 40), st.integers(1, 17))
def test_ragged(rows: int, block: int) -> None:
    x = normal(rows, 8)
    launch = tp.launch(samples.double, "(i BM) N -> (i BM) N", grid="i", ragged="BM")
    np.testing.assert_array_equal(launch(x, BM=block), x * 2)


def test_ragged_arrays_agree_exactly() -> None:
    launch = tp.launch(samples.add_into, "(i BM) N, (i BM) N -> (i BM) N", grid="i", ragged="BM")
    with pytest.raises(tp.PlacementError, match=r"30, axis 0 of `x`.*29, axis 0 of `acc`"):
        launch(normal(30, 8), normal(29, 8), BM=16)


def test_several_outputs() -> None:
    x = normal(16, 24)
    low, high = tp.launch(samples.low_and_high, "(i BM) (j BN) -> (i BM), (i BM)", grid="i j")(x, BM=8, BN=8)
    np.testing.assert_array_equal(low, x.min(axis=1))
    np.testing.assert_array_equal(high, x.max(axis=1))


@pytest.mark.parametrize("backend", [None, "triton"])
def test_a_state_that_runs_along_an_axis_of_the_output(backend: str | None) -> None:
    x = normal(16, 24)
    launch = tp.launch(
        samples.running_sum,
        "(i BM) (j BN) -> (i BM) (j BN)",
        grid="i j",
        parallel="i",
        backend=backend,  # type: ignore[arg-type]
    )
    np.testing.assert_allclose(launch(x, BM=8, BN=8), np.cumsum(x, axis=1), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_update_in_place(backend: str | None) -> None:
    x, acc = normal(32, 128), normal(32, 128)
    launch = tp.launch(samples.add_into, "(i BM) N, (i BM) N -> (i BM) N", grid="i", backend=backend)  # type: ignore[arg-type]
    np.testing.assert_array_equal(launch(x, acc, BM=8), x + acc)


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_inputs_and_grid_index(backend: str | None) -> None:
    launch = tp.launch(samples.row_numbers, "-> (i BM) N", grid="i", dims={"i": 3, "N": 128}, backend=backend)  # type: ignore[arg-type]
    expected = np.repeat([3, 103, 203], 2)[:, None] * np.ones(128, np.int32)
    np.testing.assert_array_equal(launch(BM=2), expected)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_operand_with_its_own_index_map(backend: str | None) -> None:
    x, scale = normal(4, 8, 128), normal(2, 1, 128)
    launch = tp.launch(
        samples.by_group,
        ["h (i BM) D", tp.spec("h 1 D", index=lambda h, i: (h // 2, 0, 0)), "-> h (i BM) D"],
        grid="h i",
        backend=backend,  # type: ignore[arg-type]
    )
    np.testing.assert_array_equal(launch(x, scale, BM=4), x * np.repeat(scale, 2, axis=0))


def test_offsets_in_elements() -> None:
    def window[D: Dim](x: In[BLOCK, f32, 8, D], out: Out[BLOCK, f32, 8, D]) -> None:
        out[...] = x[...]

    x = normal(20, 128)
    launch = tp.launch(
        window, [tp.spec("(i 8) D", offset=lambda i: (i * 4, 0)), "-> (i 8) D"], grid="i", dims={"i": 4}
    )
    np.testing.assert_array_equal(launch(x), np.concatenate([x[4 * i : 4 * i + 8] for i in range(4)]))


def test_element_type_of_an_output() -> None:
    def cast[T: tp.Float, BM: Dim](x: In[BLOCK, f32, BM, 8], out: Out[BLOCK, T, BM, 8]) -> None:
        out[...] = x[...].astype(out.dtype)

    for given_as in (tp.bf16, jnp.bfloat16, "bfloat16"):
        launch = tp.launch(cast, "(i BM) 8 -> (i BM) 8", grid="i", dtypes={"T": given_as})
        assert launch(normal(8, 8), BM=4).dtype == jnp.bfloat16


def test_a_block_size_written_in_the_kernel() -> None:
    def kernel(x: In[BLOCK, f32, 8, 16], out: Out[BLOCK, f32, 8, 16]) -> None:
        out[...] = -x[...]

    x = normal(24, 16)
    launch = tp.launch(kernel, "(i BM) N -> (i BM) N", grid="i")
    np.testing.assert_array_equal(launch(x), -x)
    with pytest.raises(tp.PlacementError, match="`BM` has two sizes: expected 8"):
        launch(x, BM=4)


def test_copies_by_hand() -> None:
    table = normal(32, 128)
    launch = tp.launch(samples.copied, "32 128 -> (i BM) 128", grid="i", dims={"i": 4}, backend="mosaic_tpu")
    np.testing.assert_array_equal(launch(table, BM=8), table)


def test_bound_in_advance_and_replaced() -> None:
    x = normal(32, 8)
    launch = tp.launch(samples.double, "(i BM) N -> (i BM) N", grid="i").bind(BM=8)
    assert launch.spec(x).grid == (("i", 4),)
    assert launch.spec(x, BM=16).grid == (("i", 2),)
    np.testing.assert_array_equal(launch(x), x * 2)


def test_jit_vmap_grad_of_nothing() -> None:
    launch = tp.launch(samples.product, MATMUL, grid="i j k").bind(BM=8, BK=8, BN=8)
    x, y = normal(3, 16, 8), normal(8, 16)
    expected = np.einsum("bik,kj->bij", x, y)
    np.testing.assert_allclose(jax.jit(launch)(x[0], y), expected[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(jax.vmap(launch, in_axes=(0, None))(x, y), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(jax.jit(jax.vmap(launch, (0, None)))(x, y), expected, rtol=1e-4, atol=1e-5)


def test_vmap_on_mosaic_gpu() -> None:
    launch = tp.launch(samples.double, "(i BM) N -> (i BM) N", grid="i", backend="mosaic_gpu").bind(BM=8)
    x = normal(2, 16, 128)
    np.testing.assert_array_equal(jax.vmap(launch)(x), x * 2)


def test_shard_map() -> None:
    mesh = jax.make_mesh((1,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    launch = tp.launch(samples.double, "(i BM) N -> (i BM) N", grid="i").bind(BM=8)
    x = normal(16, 8)
    run = jax.shard_map(launch, mesh=mesh, in_specs=P("d"), out_specs=P("d"), check_vma=False)
    np.testing.assert_array_equal(jax.jit(run)(x), x * 2)
    # JAX's interpreter runs no kernel whose operands vary along a mesh axis, but tracing must know that they do.
    checked = jax.shard_map(launch, mesh=mesh, in_specs=P("d"), out_specs=P("d"), check_vma=True)
    assert "varying=d" in str(jax.make_jaxpr(checked)(x)) or "{V:d}" in str(jax.make_jaxpr(checked)(x))


def test_spec_is_printable() -> None:
    launch = tp.launch(samples.product, MATMUL, grid="i j k")
    text = str(launch.spec(normal(16, 8), normal(8, 32), BM=8, BK=4, BN=16))
    for part in (
        "grid = (i=2, j=2, k=2)",
        "in x: BlockSpec((8, 4), lambda i, j, k: (i, k))",
        "in y: BlockSpec((4, 16), lambda i, j, k: (k, j))",
        "out out: BlockSpec((8, 16), lambda i, j, k: (i, j)), float32[16, 32]",
        "dimension_semantics = ('parallel', 'parallel', 'arbitrary')",
    ):
        assert part in text
    assert "emit_pipeline over k: 2 steps" in str(
        tp.launch(samples.product, MATMUL, grid="i j k", backend="mosaic_gpu").spec(
            normal(64, 8), normal(8, 32), BM=64, BK=4, BN=16
        )
    )


def test_two_sequential_axes() -> None:
    def total[BM: Dim](x: In[BLOCK, f32, BM, 4, 8], out: Out[BLOCK, f32, BM, 8]) -> None:
        @tp.first
        def _() -> None:
            out[...] = jnp.zeros(out.shape, out.dtype)

        out[...] += x[...].sum(axis=1)

    x = normal(8, 3, 8, 8)
    for backend in (None, "triton"):
        launch = tp.launch(total, "(i BM) a (j 4) 8 -> (i BM) 8", grid="i a j", backend=backend)  # type: ignore[arg-type]
        np.testing.assert_allclose(launch(x, BM=4), x.sum(axis=(1, 2)), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("backend", ["triton", "mosaic_gpu"])
def test_what_runs_once_and_reads_a_moving_block_stays_in_the_loop(backend: str | None) -> None:
    def last_block[BM: Dim, BN: Dim](x: In[BLOCK, f32, BM, BN], out: Out[BLOCK, f32, BM, BN]) -> None:
        @tp.last
        def _() -> None:
            out[...] = x[...]

    x = normal(8, 3 * 128)
    launch = tp.launch(last_block, "(i BM) (j BN) -> (i BM) BN", grid="i j", backend=backend)  # type: ignore[arg-type]
    np.testing.assert_array_equal(launch(x, BM=8, BN=128), x[:, 256:])


@pytest.mark.parametrize("backend", [None, "triton"])
def test_what_comes_before_the_first_step_of_a_state_stays_before_it(backend: str | None) -> None:
    def kernel[BM: Dim, BN: Dim](
        x: In[BLOCK, f32, BM, BN], out: Out[BLOCK, f32, BM, BN], state: tp.Scratch[tp.STATE, f32, BM, BN]
    ) -> None:
        state[...] = x[...]

        @tp.first
        def _() -> None:
            state[...] = state[...] * 10.0

        @tp.last
        def _() -> None:
            out[...] = state[...]

        state[...] = state[...] + 1.0

    x = normal(8, 8)
    launch = tp.launch(kernel, "(i BM) (j BN) -> (i BM) BN", grid="i j", backend=backend)  # type: ignore[arg-type]
    np.testing.assert_allclose(launch(x, BM=8, BN=8), x * 10.0, rtol=1e-6)
    two = normal(8, 16)
    np.testing.assert_allclose(launch(two, BM=8, BN=8), two[:, 8:], rtol=1e-6)


def test_backend_follows_the_target() -> None:
    from typedpallas.compilers.ambient import target_context

    for target, expected in (("tpu-v5e", "mosaic_tpu"), ("h100", "mosaic_gpu"), ("a100", "triton")):
        with target_context(target):
            assert choose.choices(None, None)[0].backend == expected
            assert not choose.choices(None, None)[0].interpret


def test_a_kernel_that_mosaic_gpu_lacks_goes_to_triton() -> None:
    launch = tp.launch(samples.product, MATMUL, grid="i j k").bind(BM=64, BK=64, BN=64)
    square = jax.ShapeDtypeStruct((128, 128), jnp.float32)
    assert "__gpu$xla.gpu.triton" in launch.lower(square, square, target="h100").as_text()
    half = jax.ShapeDtypeStruct((128, 128), jnp.bfloat16)
    assert "mosaic_gpu" in launch.lower(half, half, target="h100").as_text()


def test_interpret_mode_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    choose._say_interpreted.cache_clear()
    launch = tp.launch(samples.double, "(i BM) N -> (i BM) N", grid="i").bind(BM=8)
    with caplog.at_level(logging.WARNING, logger="typedpallas"):
        launch(normal(8, 8))
        launch(normal(16, 8))
    assert len([record for record in caplog.records if "interpret mode" in record.message]) == 1


def test_one_trace_for_calls_alike() -> None:
    traced = []

    def kernel[BM: Dim](x: In[BLOCK, f32, BM, 8], out: Out[BLOCK, f32, BM, 8]) -> None:
        traced.append(1)
        out[...] = x[...]

    launch = tp.launch(kernel, "(i BM) 8 -> (i BM) 8", grid="i")
    for _ in range(3):
        launch(normal(16, 8), BM=8)
    assert len(traced) == 1


def test_check_reports_what_the_target_refuses() -> None:
    launch = tp.launch(samples.product, MATMUL, grid="i j k").bind(BM=8, BK=64, BN=128)
    x, y = jax.ShapeDtypeStruct((64, 1024), jnp.float32), jax.ShapeDtypeStruct((1024, 128), jnp.float32)
    report = launch.check(x, y, target="tpu-v5e")
    assert not report.ok
    assert {item.rule for item in report.diagnostics} == {"unaligned-lane"}
    assert launch.check(x, y, target="tpu-v5e", BK=128).ok
    with pytest.raises(tp.PlacementError):
        launch.lower(x, y, target="tpu-v5e")


def test_state_is_independent_between_blocks() -> None:
    x = normal(32, 32)
    launch = tp.launch(samples.running_sum, "(i BM) (j BN) -> (i BM) (j BN)", grid="i j", parallel="i")
    np.testing.assert_allclose(launch(x, BM=8, BN=16), np.cumsum(x, axis=1), rtol=1e-5, atol=1e-5)
    assert math.prod(size for _, size in launch.spec(x, BM=8, BN=16).grid) == 8


def test_tuning_reaches_the_backend() -> None:
    launch = tp.launch(samples.product, MATMUL, grid="i j k").bind(BM=64, BK=128, BN=128)
    x = jax.ShapeDtypeStruct((128, 256), jnp.float32)
    y = jax.ShapeDtypeStruct((256, 128), jnp.float32)
    deep = launch.bind(tuning=tp.Tuning(stages=3))
    assert "pipeline_mode=Buffered(3)" in str(deep.spec(x, y, target="tpu-v5e"))
    assert "2 steps, 3 stages" in str(deep.spec(x, y, target="h100"))
    warps = launch.bind(tuning=tp.Tuning(num_warps=8, stages=4)).spec(x, y, target="a100")
    assert (warps.compiler_params.num_warps, warps.compiler_params.num_stages) == (8, 4)
    own = pltpu.CompilerParams(vmem_limit_bytes=1 << 25)
    params = launch.bind(tuning=tp.Tuning(compiler_params=own)).spec(x, y, target="tpu-v5e").compiler_params
    assert params.vmem_limit_bytes == 1 << 25
    assert len(params.dimension_semantics) == 3
    with pytest.raises(tp.LaunchError, match=r"expected .*triton.*CompilerParams"):
        launch.bind(tuning=tp.Tuning(compiler_params=own)).spec(x, y, target="a100")
