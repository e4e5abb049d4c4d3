"""`grid-axis-unused`."""

from collections.abc import Iterator

from typedpallas.events import Context, Event, IdleAxis
from typedpallas.rules.base import Example, Finding, Rule

_KERNEL = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

ARGS = (jax.ShapeDtypeStruct((64, 128), jnp.float32),)
ROWS = pl.BlockSpec((16, 128), lambda {axes}: (i, 0))

def kernel(x_ref, o_ref):
    o_ref[...] = jnp.exp(x_ref[...])

def run(x):
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((64, 128), jnp.float32),
        grid={grid},
        in_specs=[ROWS],
        out_specs=ROWS,
    )(x)

def reference(x):
    return jnp.exp(x)
"""


class GridAxisUnused(Rule):
    """A grid axis that no index map and no value depends on: every step along it does the same work again.

    The result is right, only late, so the verdict is never more than open. Kernels that keep anything from one step
    to the next (scratch, a result that is read again) may mean it, and are left alone.

    Machines: all. Source: the kernel's own trace.
    """

    slug = "grid-axis-unused"
    judges = (IdleAxis,)
    message = "grid axis {axis} of `{kernel}` changes nothing: expected {expected}, found {found}"
    example = Example(
        bad=_KERNEL.format(axes="i, j", grid="(4, 8)"),
        good=_KERNEL.format(axes="i", grid="(4,)"),
        targets=("tpu-v5e", "h100"),
        compiler="accepts",
        verdict="open",
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, IdleAxis)
        yield self.open(
            axis=event.axis,
            kernel=event.kernel,
            expected="an axis that an index map or `pl.program_id` reads",
            found=f"{event.extent} steps of the same work",
            help=f"drop axis {event.axis} from the grid and from the index maps, or let a block depend on it",
        )
