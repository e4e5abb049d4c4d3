"""What a launch refuses, and that each refusal names the operand, what was expected and what was found."""

from pathlib import Path
from typing import Any
from typing import Literal as L

import jax.numpy as jnp
import numpy as np
import pytest
import samples

import typedpallas as tp
from typedpallas import BLOCK, Dim, In, InOut, Out, Ref, Scratch, bf16, f32, gpu, tpu

X = np.ones((64, 32), np.float32)
DOUBLE = tp.launch(samples.double, "(i BM) N -> (i BM) N", grid="i")
PRODUCT = tp.launch(samples.product, "(i BM) (k BK), (k BK) (j BN) -> (i BM) (j BN)", grid="i j k")


def refused(call: Any, *words: str, rule: str | None = None) -> None:
    kinds = (tp.LaunchError, tp.PlacementError, tp.PatternError)
    with pytest.raises(kinds) as caught:
        call()
    text = str(caught.value)
    for word in words:
        assert word in text
    if rule is not None:
        assert isinstance(caught.value, tp.PlacementError)
        assert [item.rule for item in caught.value.diagnostics] == [rule]


def test_block_that_does_not_divide() -> None:
    refused(lambda: DOUBLE(X, BM=24), "`x`", "24", "64", "BM=16", 'ragged="BM"', rule="ragged-block")


def test_the_line_is_the_callers() -> None:
    with pytest.raises(tp.PlacementError) as caught:
        DOUBLE(X)
    (found,) = caught.value.diagnostics
    assert found.file == __file__
    assert "DOUBLE(X)" in Path(__file__).read_text().splitlines()[found.line - 1]


def test_missing_block_size() -> None:
    refused(lambda: DOUBLE(X), "`double`", "`BM=...`", rule="missing-size")


def test_unknown_block_size() -> None:
    refused(lambda: DOUBLE(X, BM=16, BMM=16), "`BMM`", "`BM`", rule="unknown-size")


def test_bound_of_a_dim() -> None:
    refused(lambda: PRODUCT(X, X.T, BM=4, BK=16, BN=16), "`BM` = 4", "multiple of 8", "BM=8", rule="not-a-multiple")


def test_arrays_that_disagree() -> None:
    refused(
        lambda: PRODUCT(X, X, BM=8, BK=16, BN=16),
        "32, axis 1 of `x`",
        "64, axis 0 of `y`",
        rule="block-conflict",
    )


def test_whole_dims_that_disagree() -> None:
    add = tp.launch(samples.add_into, "(i BM) N, (i BM) N -> (i BM) N", grid="i")
    refused(lambda: add(X, X[:, :16], BM=8), "32, axis 1 of `x`", "16, axis 1 of `acc`", rule="block-conflict")


def test_number_of_arrays() -> None:
    refused(lambda: DOUBLE(X, X, BM=8), "1 arrays (`x`)", "found 2")


def test_rank_of_an_array() -> None:
    refused(lambda: DOUBLE(X[0], BM=8), "`x`", "rank 2", "rank 1")


def test_not_an_array() -> None:
    refused(lambda: DOUBLE([1.0], BM=8), "`x`", "expected an array", "list")


def test_empty_array() -> None:
    refused(lambda: DOUBLE(X[:0], BM=8), "`x`", "at least one element")


@pytest.mark.parametrize(("size", "word"), [(8.0, "whole number"), ("8", "whole number"), (0, "at least 1")])
def test_nonsense_block_size(size: Any, word: str) -> None:
    refused(lambda: DOUBLE(X, BM=size), "`BM`", word)


def test_element_type_of_an_array() -> None:
    refused(lambda: DOUBLE(X.astype(jnp.bfloat16), BM=8), "`x`", "f32", "bf16")


def test_element_types_that_disagree() -> None:
    refused(lambda: PRODUCT(X, X.T.astype(jnp.bfloat16), BM=8, BK=16, BN=16), "`T`", "f32 by `x`", "bf16 by `y`")


def test_element_type_outside_of_its_bound() -> None:
    ints = X.astype(np.int32)
    refused(lambda: PRODUCT(ints, ints.T, BM=8, BK=16, BN=16), "`T`", "Float", "i32")


def test_element_type_that_nothing_fixes() -> None:
    def cast[T: tp.Float](x: In[BLOCK, f32, L[8], L[32]], out: Out[BLOCK, T, L[8], L[32]]) -> None:
        out[...] = x[...].astype(out.dtype)

    refused(lambda: tp.launch(cast, "(i BM) 32 -> (i BM) 32", grid="i")(X), "`T`", "dtypes={'T': ...}")


def test_unknown_element_type_parameter() -> None:
    launch = tp.launch(samples.double, "(i BM) N -> (i BM) N", grid="i", dtypes={"U": f32})
    refused(lambda: launch(X, BM=8), "`U`", "none")


def test_arity() -> None:
    refused(
        lambda: tp.launch(samples.double, "(i BM) N, (i BM) N -> (i BM) N", grid="i"), "`double`", rule="wrong-arity"
    )


def test_rank_of_a_block() -> None:
    refused(lambda: tp.launch(samples.double, "(i BM) -> (i BM)", grid="i"), "rank 2", "rank 1")


def test_names_that_do_not_match() -> None:
    refused(lambda: tp.launch(samples.double, "N (i BM) -> (i BM) N", grid="i"), "`x`", "expected BM", "found N")


def test_whole_literal_dim() -> None:
    launch = tp.launch(samples.copied, "32 128 -> (i BM) 128", grid="i", dims={"i": 4}, backend="mosaic_tpu")
    refused(lambda: launch(X, BM=8), "axis 0 of `table`", "expected 32", "found 64")


def test_windowed_hbm() -> None:
    def kernel(x: In[tpu.HBM, f32, L[8], L[128]], out: Out[tpu.VMEM, f32, L[8], L[128]]) -> None: ...

    refused(lambda: tp.launch(kernel, "(i 8) 128 -> (i 8) 128", grid="i"), "`x`", "tpu.HBM", rule="windowed-any")


def test_pattern_error_shows_a_caret() -> None:
    refused(lambda: tp.launch(samples.double, "(i BM N -> (i BM) N", grid="i"), "^", "not closed")


def test_parameters_without_a_place() -> None:
    def plain(x, out: Out[BLOCK, f32, L[8]]) -> None: ...  # type: ignore[no-untyped-def]

    def helper(x: Ref[BLOCK, f32, L[8]], out: Out[BLOCK, f32, L[8]]) -> None: ...

    refused(lambda: tp.launch(plain, "(i 8) -> (i 8)", grid="i"), "`x`", "no annotation")
    refused(lambda: tp.launch(helper, "(i 8) -> (i 8)", grid="i"), "`x`", "`In`", "Ref[")


def test_update_in_place_with_two_patterns() -> None:
    def kernel(x: InOut[BLOCK, f32, L[8], L[8]]) -> None: ...

    refused(lambda: tp.launch(kernel, "(i 8) (j 8) -> (j 8) (i 8)", grid="i j"), "in place", "(j 8) (i 8)")


def test_spaces_of_another_machine() -> None:
    def on_gpu[BM: Dim](x: In[gpu.SMEM, f32, BM, L[32]], out: Out[gpu.SMEM, f32, BM, L[32]]) -> None: ...

    def on_tpu[BM: Dim](x: In[tpu.VMEM, f32, BM, L[32]], out: Out[tpu.VMEM, f32, BM, L[32]]) -> None: ...

    pattern = "(i BM) 32 -> (i BM) 32"
    refused(lambda: tp.launch(on_gpu, pattern, grid="i", backend="mosaic_tpu")(X, BM=8), "gpu.SMEM", "mosaic_tpu")
    refused(lambda: tp.launch(on_tpu, pattern, grid="i", backend="mosaic_gpu")(X, BM=8), "tpu.VMEM", "mosaic_gpu")
    refused(lambda: tp.launch(on_tpu, pattern, grid="i", backend="triton")(X, BM=8), "tpu.VMEM", "triton")


def test_options() -> None:
    pattern = "(i BM) N -> (i BM) N"
    refused(lambda: tp.launch(samples.double, pattern, grid="i", backend="cuda"), "mosaic_tpu", "'cuda'")  # type: ignore[arg-type]
    refused(lambda: tp.launch(samples.double, pattern, grid="i", parallel="k"), "`parallel`", "`k`")
    refused(lambda: tp.launch(samples.double, pattern, grid="i", ragged="BK"), "`ragged`", "BM", "`BK`")
    refused(lambda: tp.Tuning(stages=0), "`stages`", "at least 1")
    refused(lambda: tp.launch(samples.double, pattern, grid="i", tuning=tp.Tuning(num_warps=4))(X, BM=8), "num_warps")
    refused(lambda: tp.spec("a b"), "exactly one")


def test_steps_that_nothing_gives() -> None:
    launch = tp.launch(samples.row_numbers, "-> (i BM) N", grid="i", dims={"N": 4})
    refused(lambda: launch(BM=2), "`i`", "dims={'i': ...}")


def test_parallel_axis_that_an_output_lacks() -> None:
    launch = tp.launch(
        samples.product, "(i BM) (k BK), (k BK) (j BN) -> (i BM) (j BN)", grid="i j k", parallel="i j k"
    )
    refused(lambda: launch(X, X.T, BM=8, BK=16, BN=16), "`k`", "`out`", rule="write-race")


def test_state_along_an_outer_axis_on_tpu() -> None:
    launch = tp.launch(samples.product, "(i BM) (k BK), (k BK) (j BN) -> (i BM) (j BN)", grid="k i j")
    refused(lambda: launch(X, X.T, BM=8, BK=16, BN=16), "`k`", "`out`", rule="nonconsecutive-revisit")
    assert launch(X[:8], X.T[:, :16], BM=8, BK=16, BN=16).shape == (8, 16)  # one block: nothing comes back


def test_scratch_of_no_shape() -> None:
    def kernel(x: In[BLOCK, f32, L[8]], out: Out[BLOCK, f32, L[8]], s: Scratch[BLOCK, bf16, ...]) -> None: ...

    refused(lambda: tp.launch(kernel, "(i 8) -> (i 8)", grid="i"), "`s`", "expected a shape")


def test_backend_that_the_target_lacks() -> None:
    from typedpallas.compilers.ambient import target_context

    launch = tp.launch(samples.double, "(i BM) N -> (i BM) N", grid="i", backend="mosaic_tpu")
    with target_context("h100"):
        refused(lambda: launch(X, BM=8), "`mosaic_tpu`", "h100", "mosaic_gpu or triton")
