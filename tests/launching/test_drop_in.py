"""`tp.pallas_call`: Pallas's signature, the kernel's annotations checked."""

from typing import Any
from typing import Literal as L

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import typedpallas as tp
from typedpallas import Dim, In, Out, Scratch, f32, i32
from typedpallas.tpu import SMEM, VMEM

X = np.arange(32 * 128, dtype=np.float32).reshape(32, 128)


def kernel[BM: Dim](
    x: In[VMEM, f32, BM, L[128]], out: Out[VMEM, f32, BM, L[128]], scratch: Scratch[VMEM, f32, L[8], L[128]]
) -> None:
    scratch[...] = x[...]
    out[...] = scratch[...] + 1.0


def call(*arrays: Any, **changes: Any) -> Any:
    options: dict[str, Any] = {
        "grid": (4,),
        "in_specs": [pl.BlockSpec((8, 128), lambda i: (i, 0))],
        "out_specs": pl.BlockSpec((8, 128), lambda i: (i, 0)),
        "scratch_shapes": [pltpu.VMEM((8, 128), jnp.float32)],
        "interpret": True,
    }
    out = jax.ShapeDtypeStruct((32, 128), changes.pop("dtype", jnp.float32))
    return tp.pallas_call(kernel, out, **(options | changes))(*(arrays or (X,)))


def test_runs_as_pallas_does() -> None:
    np.testing.assert_array_equal(call(), X + 1)
    np.testing.assert_array_equal(jax.jit(call)(X), X + 1)
    np.testing.assert_array_equal(jax.vmap(call)(np.stack([X, X]))[1], X + 1)


@pytest.mark.parametrize(
    ("changes", "rule", "words"),
    [
        ({"in_specs": [pl.BlockSpec((8, 64), lambda i: (i, 0))]}, "wrong-block", ("`x`", "expected 128", "found 64")),
        ({"out_specs": pl.BlockSpec((16, 128), lambda i: (i, 0))}, "wrong-block", ("`out`", "8", "16")),
        ({"scratch_shapes": [pltpu.VMEM((8, 64), jnp.float32)]}, "wrong-block", ("`scratch`", "128", "64")),
        ({"scratch_shapes": [pltpu.SMEM((8, 128), jnp.float32)]}, "wrong-space", ("`scratch`", "tpu.SMEM")),
        (
            {"in_specs": [pl.BlockSpec((8, 128), lambda i: (i, 0), memory_space=pltpu.SMEM)]},
            "wrong-space",
            ("`x`", "tpu.VMEM", "tpu.SMEM"),
        ),
        ({"scratch_shapes": []}, "wrong-arity", ("`kernel`", "scratch")),
    ],
)
def test_refusals(changes: dict[str, Any], rule: str, words: tuple[str, ...]) -> None:
    with pytest.raises(tp.PlacementError) as caught:
        call(**changes)
    assert [item.rule for item in caught.value.diagnostics] == [rule]
    for word in words:
        assert word in str(caught.value)


def test_number_of_arrays() -> None:
    with pytest.raises(tp.PlacementError, match=r"expected 1 .*found 2"):
        call(X, X, in_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0))] * 2)


def test_element_type() -> None:
    with pytest.raises(tp.LaunchError, match="`out` of `kernel`: expected f32, found bfloat16"):
        call(dtype=jnp.bfloat16)


def test_prefetched_scalars_and_squeezed_dims() -> None:
    def pick(table: In[SMEM, i32, L[2]], x: In[VMEM, f32, L[8], L[128]], out: Out[VMEM, f32, L[8], L[128]]) -> None:
        out[...] = x[...] + table[0]

    x = np.stack([X[:8], X[8:16], X[16:24]])
    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(2,),
        in_specs=[pl.BlockSpec((None, 8, 128), lambda i, table: (table[i], 0, 0))],
        out_specs=pl.BlockSpec((None, 8, 128), lambda i, table: (i, 0, 0)),
    )
    out = jax.ShapeDtypeStruct((2, 8, 128), jnp.float32)
    run = tp.pallas_call(pick, out, grid_spec=spec, interpret=True)
    np.testing.assert_array_equal(run(np.array([2, 0], np.int32), x), x[[2, 0]] + 2)


def test_a_kernel_without_annotations() -> None:
    def plain(x, out):  # type: ignore[no-untyped-def]
        out[...] = x[...] * 2.0

    run = tp.pallas_call(plain, jax.ShapeDtypeStruct(X.shape, X.dtype), interpret=True)
    np.testing.assert_array_equal(run(X), X * 2)


def test_pytrees() -> None:
    def plain(pair, out):  # type: ignore[no-untyped-def]
        out["sum"][...] = pair[0][...] + pair[1][...]

    out = {"sum": jax.ShapeDtypeStruct(X.shape, X.dtype)}
    found = tp.pallas_call(plain, out, interpret=True)((X, X + 1))
    np.testing.assert_array_equal(found["sum"], X + X + 1)
