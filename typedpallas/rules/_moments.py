"""How messages write what warpgroups, copies and products of a GPU kernel do, and when."""

from typedpallas.events import SharedUse, When
from typedpallas.rules._steps import shown

KERNEL = """
import functools
import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

ARGS = (jax.ShapeDtypeStruct((128, 256), jnp.float16), jax.ShapeDtypeStruct((256, 128), jnp.float16))
TILED = (plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128))

def kernel(x_gmem, y_gmem, o_gmem, x_smem, y_smem, o_smem, arrived):
    @functools.partial(pl.run_scoped, acc=plgpu.ACC((128, 128), jnp.float32))
    def _(acc):
        @pl.loop(0, 4)
        def _(step):
            part = pl.ds(step * 64, 64)
            plgpu.copy_gmem_to_smem(x_gmem.at[:, part], x_smem, arrived)
            plgpu.copy_gmem_to_smem(y_gmem.at[part, :], y_smem, arrived)
            {wait}
            plgpu.wgmma(acc, x_smem, y_smem)
            {product}

        o_smem[...] = acc[...].astype(jnp.float16)

    {commit}
    plgpu.copy_smem_to_gmem(o_smem, o_gmem)
    {drain}

def run(x, y):
    return plgpu.kernel(
        kernel,
        out_type=jax.ShapeDtypeStruct((128, 128), jnp.float16),
        scratch_types=[
            plgpu.SMEM((128, 64), jnp.float16, transforms=TILED),
            plgpu.SMEM((64, 128), jnp.float16, transforms=TILED),
            plgpu.SMEM((128, 128), jnp.float16),
            plgpu.Barrier(num_arrivals={arrivals}),
        ],
    )(x, y)

def reference(x, y):
    return jnp.dot(x, y, preferred_element_type=jnp.float32).astype(jnp.float16)
"""
"""A product on Hopper, step by step through one pair of buffers, for the examples of several rules."""
_RIGHT = {
    "wait": "plgpu.barrier_wait(arrived)",
    "product": "plgpu.wgmma_wait(0)",
    "commit": "plgpu.commit_smem()",
    "drain": "plgpu.wait_smem_to_gmem(0)",
    "arrivals": "2",
}


def kernel(**parts: str) -> str:
    """The example kernel, right but for these parts."""
    return KERNEL.format(**(_RIGHT | parts))


def by(when: When, since: When | None = None) -> str:
    """``"by warpgroup 1 in turn 3 of its loop, in block (0, 1)"``."""
    said = f"by {when.thread}"
    if len(when.turns) == 1:
        said += f" in turn {when.turns[0]} of its loop"
    elif when.turns:
        said += f" in turns {shown(when.turns)} of its loops"
    return said + (f", in block {shown(when.block)}" if when.block and since is None else "")


BEGUN: dict[SharedUse, str] = {
    "load": "loaded from",
    "store": "stored to",
    "copy to": "filled by a copy begun",
    "copy from": "copied out, begun",
    "product": "used by a product begun",
    "tensor load": "loaded from",
    "tensor store": "stored to",
}
DONE: dict[SharedUse, str] = {
    "load": "a load from it",
    "store": "a store to it",
    "copy to": "a copy to it",
    "copy from": "a copy from it",
    "product": "a product with it",
    "tensor load": "a load from it",
    "tensor store": "a store to it",
}
