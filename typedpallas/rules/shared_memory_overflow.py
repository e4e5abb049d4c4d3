"""`shared-memory-overflow`."""

from collections.abc import Iterator

from typedpallas.events import Context, Event, MemoryUse
from typedpallas.rules import _bytes
from typedpallas.rules.base import Example, Finding, Rule

_KERNEL = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

ARGS = (jax.ShapeDtypeStruct((1024, 2048), jnp.bfloat16), jax.ShapeDtypeStruct((2048, 1024), jnp.bfloat16))

def kernel(x_ref, y_ref, o_ref):
{body}

def run(x, y):
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((1024, 1024), jnp.float32),
        grid=(8, 8),
        in_specs=[
            pl.BlockSpec((128, 2048), lambda i, j: (i, 0)),
            pl.BlockSpec((2048, 128), lambda i, j: (0, j)),
        ],
        out_specs=pl.BlockSpec((128, 128), lambda i, j: (i, j)),
    )(x, y)

def reference(x, y):
    return jnp.dot(x, y, preferred_element_type=jnp.float32)
"""
_AT_ONCE = """    o_ref[...] = jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)"""
_LOOP = """    def step(k, total):
        x = x_ref[:, pl.ds(k * 32, 32)]
        y = y_ref[pl.ds(k * 32, 32), :]
        return total + jnp.dot(x, y, preferred_element_type=jnp.float32)

    o_ref[...] = jax.lax.fori_loop(0, 2048 // 32, step, jnp.zeros((128, 128), jnp.float32))"""


class SharedMemoryOverflow(Rule):
    """A block of a GPU kernel needs more shared memory than the chip has for one.

    Mosaic GPU keeps there every SMEM buffer that the kernel asks for; its own check assumes the size of an H100
    whatever the chip, so on smaller ones the launch fails. Triton keeps there the operands of a matrix product, whole
    and more than once in a pipelined loop; what it certainly keeps is refused, what depends on its pipeline is left
    open.

    Machines: GPU. Source: XLA's refusal ("Shared memory size limit exceeded") over matrix products on a100, h100 and
    b200; Mosaic GPU's allocation over 33 kernels; NVIDIA's sizes.
    """

    slug = "shared-memory-overflow"
    judges = (MemoryUse,)
    message = "the kernel needs {found} of shared memory: expected at most {expected}"
    example = Example(
        bad=_KERNEL.format(body=_AT_ONCE),
        good=_KERNEL.format(body=_LOOP),
        targets=("a100", "h100"),
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, MemoryUse)
        if event.space != "shared" or event.high <= event.limit:
            return
        certain = event.low > event.limit
        make = self.refuted if certain else self.open
        yield make(
            found=f"{'' if certain else 'up to '}{event.low if certain else event.high} bytes",
            expected=f"{event.limit}, {event.limit_from}",
            witness=_bytes.largest(event),
            help="use smaller tiles, loop over the contracted axis in steps, or use fewer stages",
        )
