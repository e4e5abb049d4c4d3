"""`tp.kernel`: what it refuses, and that a body gets what its annotations say."""

from collections.abc import Callable
from typing import Any
from typing import Literal as L

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

import typedpallas as tp
from typedpallas import Dim, In, InOut, Mesh, Out, Scratch, f32, kernel
from typedpallas.gpu import GMEM, SMEM, Barrier
from typedpallas.tpu import VMEM

MESH = Mesh(grid={"block": 2})


def doubled[T: tp.Float, N: Dim, W: Dim](
    x: In[GMEM, T, N, W],
    out: Out[GMEM, T, N, W],
    slot: Scratch[SMEM, T, W],
    filled: Scratch[Barrier],
) -> None:
    rows = x.shape[0] // lax.axis_size("block")

    @pl.loop(0, rows)
    def _(i: Any) -> None:
        row = lax.axis_index("block") * rows + i
        plgpu.copy_gmem_to_smem(x.at[row], slot, filled)
        plgpu.barrier_wait(filled)
        slot[...] = slot[...] * 2
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(slot, out.at[row])
        plgpu.wait_smem_to_gmem(0)


def added[N: Dim, W: Dim](
    x: In[GMEM, f32, N, W],
    total: InOut[GMEM, f32, N, W],
    last: Out[GMEM, f32, W],
    slots: Scratch[SMEM, f32, L[2], W],
    filled: Scratch[Barrier],
) -> None:
    @pl.loop(0, x.shape[0])
    def _(row: Any) -> None:
        for source, slot in ((x, 0), (total, 1)):
            plgpu.copy_gmem_to_smem(source.at[row], slots.at[slot], filled)
            plgpu.barrier_wait(filled)
        slots[1, :] = slots[0, :] + slots[1, :]
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(slots.at[1], total.at[row])
        plgpu.copy_smem_to_gmem(slots.at[1], last)
        plgpu.wait_smem_to_gmem(0)


def widened[N: Dim, M: Dim](x: In[GMEM, f32, N], out: Out[GMEM, f32, N, M]) -> None: ...


def converted[T: tp.Float, N: Dim](x: In[GMEM, f32, N], out: Out[GMEM, T, N]) -> None: ...


def of_a_tpu[N: Dim](x: In[VMEM, f32, N], out: Out[GMEM, f32, N]) -> None: ...


def out_of_order[N: Dim](x: In[GMEM, f32, N], slot: Scratch[SMEM, f32, N], out: Out[GMEM, f32, N]) -> None: ...


def unannotated(x: Any, out: Any) -> None: ...


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_a_body_gets_what_its_annotations_say(dtype: str) -> None:
    x = np.arange(4 * 256).reshape(4, 256).astype(jnp.dtype(dtype))
    found = kernel(doubled, MESH, interpret=True)(x)
    assert found.dtype == x.dtype
    np.testing.assert_array_equal(np.asarray(found), x * 2)


def test_an_array_that_is_changed_is_a_result() -> None:
    x, start = (np.arange(4 * 128, dtype=np.float32).reshape(4, 128) * n for n in (1, 100))
    total, last = jax.jit(kernel(added, Mesh(grid={"block": 1}), interpret=True))(x, start)
    np.testing.assert_array_equal(total, x * 101)
    np.testing.assert_array_equal(last, x[-1] * 101)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: kernel(of_a_tpu, MESH), "`x` of `of_a_tpu`: expected `gpu.GMEM`, found `tpu.VMEM`"),
        (lambda: kernel(out_of_order, MESH), "inputs come first"),
        (lambda: kernel(unannotated, MESH), "found no annotation of a ref"),
        (lambda: kernel(doubled, MESH, arrivals={"full": 2}), "no barrier `full`; its barriers: `filled`"),
        (lambda: kernel(doubled, MESH)(), r"expected 1 arrays \(`x`\), found 0"),
        (lambda: kernel(widened, MESH)(jnp.zeros(8)), r"nothing gives `M` of `out`"),
        (lambda: kernel(converted, MESH)(jnp.zeros(8)), r"nothing gives `T` of `out`"),
        (lambda: kernel(doubled, MESH, dims={"K": 8})(jnp.zeros((8, 8))), "has no dim `K`"),
        (lambda: Mesh(grid={"block": 0}), "axis `block`: expected a whole number of at least 1, found 0"),
        (lambda: Mesh(grid={}, threads={"a": 1, "b": 2}), "expected one axis at most"),
    ],
)
def test_refused(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(tp.LaunchError, match=words):
        make()


def test_an_array_of_another_rank_is_refused() -> None:
    with pytest.raises(tp.SignatureError, match="2 dims"):
        kernel(doubled, MESH)(jnp.zeros(8))


def test_a_size_that_disagrees_is_refused() -> None:
    with pytest.raises(tp.SignatureError, match="W"):
        kernel(doubled, MESH, dims={"W": 128})(jnp.zeros((4, 256)))
