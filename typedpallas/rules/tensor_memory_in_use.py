"""`tensor-memory-in-use`."""

from collections.abc import Iterator

from typedpallas.events import Context, Event, SharedInUse
from typedpallas.rules._moments import DONE, by
from typedpallas.rules.base import Example, Finding, Rule

_KERNEL = """
import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

ARGS = (jax.ShapeDtypeStruct((256, 64), jnp.float16), jax.ShapeDtypeStruct((64, 128), jnp.float16))
TILED = (plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128))

def kernel(x_gmem, y_gmem, o_gmem, x_smem, y_smem, o_smem, acc, filled, done, read):
    group = lax.axis_index("group")

    @pl.when(group == 0)
    def _():
        plgpu.copy_gmem_to_smem(y_gmem, y_smem, filled)
        plgpu.barrier_wait(filled)

        @pl.loop(0, 2)
        def _(step):
            plgpu.copy_gmem_to_smem(x_gmem.at[pl.ds(step * 128, 128)], x_smem, filled)
            plgpu.barrier_wait(filled)
            pl.when(step > 0)(lambda: plgpu.barrier_wait(read))
            plgpu.tcgen05_mma(acc, x_smem, y_smem, done, accumulate=False)
            plgpu.barrier_wait(done)

        plgpu.barrier_wait(read)

    @pl.when(group == 1)
    def _():
        @pl.loop(0, 2)
        def _(step):
            plgpu.barrier_wait(done)
            sums = plgpu.async_load_tmem(acc)
            {body}
            plgpu.wait_smem_to_gmem(0)
            o_smem[...] = sums.astype(jnp.float16)
            plgpu.commit_smem()
            plgpu.copy_smem_to_gmem(o_smem, o_gmem.at[pl.ds(step * 128, 128)])

        plgpu.wait_smem_to_gmem(0)

def run(x, y):
    return plgpu.kernel(
        kernel,
        out_type=jax.ShapeDtypeStruct((256, 128), jnp.float16),
        scratch_types=[
            plgpu.SMEM((128, 64), jnp.float16, transforms=TILED),
            plgpu.SMEM((64, 128), jnp.float16, transforms=TILED),
            plgpu.SMEM((128, 128), jnp.float16, transforms=TILED),
            plgpu.TMEM((128, 128), jnp.float32),
            plgpu.Barrier(),
            plgpu.Barrier(orders_tensor_core=True),
            plgpu.Barrier(orders_tensor_core=True),
        ],
        num_threads=2,
        thread_name="group",
    )(x, y)

def reference(x, y):
    return jnp.dot(x, y, preferred_element_type=jnp.float32).astype(jnp.float16)
"""
_READ = "plgpu.barrier_arrive(read)"


class TensorMemoryInUse(Rule):
    """Tensor memory is used again while a load from it or a store to it may still run.

    ``async_load_tmem`` and ``async_store_tmem`` only begin. What is loaded may be used at once, but the memory may be
    overwritten, or given back, only after ``wait_load_tmem()``; what is stored is there for loads and products only
    after ``commit_tmem()``.

    Machines: GPU (Mosaic GPU on Blackwell). Source: JAX's documentation of these functions, PTX's ``tcgen05.wait``.
    The compiler takes the mistake.
    """

    slug = "tensor-memory-in-use"
    judges = (SharedInUse,)
    message = "`{buffer}` is used while {other} may still run: expected {expected}, found {found}"
    example = Example(
        bad=_KERNEL.format(body=_READ),
        good=_KERNEL.format(body=f"plgpu.wait_load_tmem()\n            {_READ}"),
        targets=("b200",),
        compiler="accepts",
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, SharedInUse)
        if event.other not in ("tensor load", "tensor store"):
            return
        wait = "plgpu.wait_load_tmem()" if event.other == "tensor load" else "plgpu.commit_tmem()"
        yield self.refuted(
            buffer=event.buffer,
            other=DONE[event.other],
            expected=f"`{wait}` first",
            found=DONE[event.use],
            witness=f"{DONE[event.other]} was begun {by(event.began)}; {DONE[event.use]} "
            f"{by(event.when, event.began)} is not ordered after its end",
            help=f"call `{wait}` in {event.began.thread}, before it arrives at the barrier that this waits for",
        )
