"""`tmem-overflow`."""

from collections.abc import Iterator

from typedpallas.events import Context, Event, MemoryUse
from typedpallas.rules.base import Example, Finding, Rule

_MODULE = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

SUMS = {sums}
M, N, K = 128, 128, 64
ARGS = (jax.ShapeDtypeStruct((M, K), jnp.float16), jax.ShapeDtypeStruct((K, N), jnp.float16))

def kernel(x, y, o, x_tile, y_tile, o_tile, arrived, done, *sums):
    plgpu.copy_gmem_to_smem(x, x_tile, arrived)
    plgpu.copy_gmem_to_smem(y, y_tile, arrived)
    plgpu.barrier_wait(arrived)
    for acc in sums:
        plgpu.tcgen05_mma(acc, x_tile, y_tile, done, accumulate=False)
        plgpu.barrier_wait(done)
    o_tile[...] = plgpu.async_load_tmem(sums[0])
    plgpu.commit_smem()
    plgpu.copy_smem_to_gmem(o_tile, o)
    plgpu.wait_smem_to_gmem(0)

def run(x, y):
    return plgpu.kernel(
        kernel,
        out_type=jax.ShapeDtypeStruct((M, N), jnp.float32),
        scratch_types=[
            plgpu.SMEM((M, K), jnp.float16),
            plgpu.SMEM((K, N), jnp.float16),
            plgpu.SMEM((M, N), jnp.float32),
            plgpu.Barrier(num_arrivals=2),
            plgpu.Barrier(orders_tensor_core=True),
            *[plgpu.TMEM((M, N), jnp.float32)] * SUMS,
        ],
    )(x, y)

def reference(x, y):
    return jnp.dot(x, y, preferred_element_type=jnp.float32)
"""


class TmemOverflow(Rule):
    """A kernel asks for more columns of tensor memory than a block has.

    A block of a Blackwell GPU has 512 columns of 32 bits by 128 rows. What a kernel holds at once is added up, each
    buffer rounded up to 8 columns, and the sum is rounded up to a power of two of at least 32. A buffer of 64 rows
    takes as many columns as half its width; one of packed 16-bit elements too.

    Machines: GPU (Mosaic GPU) from compute capability 10.0 on. Source: its lowering ("After rounding up, got 1024
    columns"), asked on b200 up to both sides of the limit.
    """

    slug = "tmem-overflow"
    judges = (MemoryUse,)
    message = "the kernel needs {found} of tensor memory: expected at most {expected}"
    example = Example(bad=_MODULE.format(sums=5), good=_MODULE.format(sums=4), targets=("b200",))

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, MemoryUse)
        if event.space != "tmem" or event.low <= event.limit:
            return
        parts = "; ".join(f"`{item.name}` takes {item.how}" for item in event.items)
        yield self.refuted(
            found=f"{event.low} columns",
            expected=f"{event.limit}, {event.limit_from}",
            witness=parts,
            help="use narrower accumulators, or let several have one in turn: `plgpu.RefUnion`, or a `pl.run_scoped` "
            "for each",
        )
