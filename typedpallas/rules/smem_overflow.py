"""`smem-overflow`."""

from collections.abc import Iterator

from typedpallas.events import Context, Event, MemoryUse
from typedpallas.rules import _bytes
from typedpallas.rules.base import Example, Finding, Rule

_KERNEL = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

ARGS = (jax.ShapeDtypeStruct({table}, jnp.int32), jax.ShapeDtypeStruct((512, 128), jnp.float32))

def kernel(table_ref, x_ref, o_ref):
    o_ref[...] = x_ref[...] + table_ref[{index}].astype(jnp.float32)

def run(table, x):
    block = pl.BlockSpec((8, 128), lambda i, table_ref: (i, 0))
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((512, 128), jnp.float32),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1, grid=(64,), in_specs=[block], out_specs=block
        ),
    )(table, x)

def reference(table, x):
    return x + table[{index}].astype(jnp.float32)
"""


class SmemOverflow(Rule):
    """The scalars that a kernel keeps in SMEM need more than the core has.

    Every scalar-prefetch operand lies there whole, before the kernel starts. The last dim is padded to 128 elements:
    a table of 4096 x 8 takes as much as one of 4096 x 128.

    Machines: TPU. Source: libtpu's refusal ("Ran out of memory in memory space smem") by bisection on v4 to 7x.
    """

    slug = "smem-overflow"
    judges = (MemoryUse,)
    message = "the kernel needs {found} of SMEM: expected at most {expected}"
    example = Example(
        bad=_KERNEL.format(table="(4096, 8)", index="0, 0"),
        good=_KERNEL.format(table="(4096 * 8,)", index="0"),
        targets=("tpu-v5e", "tpu-7x"),
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, MemoryUse)
        if event.space != "smem" or event.high <= event.limit:
            return
        certain = event.low > event.limit
        make = self.refuted if certain else self.open
        yield make(
            found=f"{'' if certain else 'up to '}{event.low if certain else event.high} bytes",
            expected=f"{event.limit}, {event.limit_from}",
            witness=_bytes.largest(event),
            help="flatten a table whose last dim is small, split the work into several calls, or keep the table in "
            "HBM and copy the part that a step needs",
        )
