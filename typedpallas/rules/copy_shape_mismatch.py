"""`copy-shape-mismatch`."""

from collections.abc import Iterator

from typedpallas import gpu, solve
from typedpallas.events import Context, Copied, Event, RefFact, Shape
from typedpallas.rules._shapes import shown
from typedpallas.rules.base import Example, Finding, Rule

_KERNEL = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

ARGS = (jax.ShapeDtypeStruct((16, 128), jnp.float32),)

def kernel(x_ref, o_ref, buffer_ref, done_ref):
    copy = pltpu.make_async_copy(x_ref.at[pl.ds(0, {rows}), :], buffer_ref, done_ref)
    copy.start()
    copy.wait()
    o_ref[...] = buffer_ref[...] * 2.0

def run(x):
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32),
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        scratch_shapes=[pltpu.VMEM((8, 128), jnp.float32), pltpu.SemaphoreType.DMA],
    )(x)

def reference(x):
    return x[:8] * 2.0
"""


class CopyShapeMismatch(Rule):
    """The two ends of a copy have different shapes.

    A copy moves elements one for one between places of one shape; it neither broadcasts, cuts off nor reshapes, and
    a missing axis of one element is a difference too. `ref.at[...]` selects the part, `ref.reshape(...)` changes the
    shape of an end.

    Machines: TPU. Source: libtpu 0.0.48 refuses it on every chip from v2 to 7x ("DMA source and target shape
    mismatch"); JAX traces it, and its interpret mode copies as far as numpy broadcasts.
    """

    slug = "copy-shape-mismatch"
    judges = (Copied,)
    message = "copy to `{target}` moves another shape: expected {expected}, found {found}"
    example = Example(bad=_KERNEL.format(rows=16), good=_KERNEL.format(rows=8), targets=("tpu-v5e",))

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, Copied)
        if event.source.shape is None or event.target.shape is None:
            return
        refused_by_jax = context.machine is None and event.source.space is gpu.GMEM  # its copies may split a shape
        machine = context.machine or (event.target.space.machine if event.target.space is not None else None)
        if machine != "tpu" and not refused_by_jax:
            return
        axis = _differing(event.source.shape, event.target.shape, context)
        if axis is None:
            return
        yield self.refuted(
            target=event.target.name,
            expected=f"`{_words(event.target)}`",
            found=f"`{_words(event.source)}` from `{event.source.name}`",
            blame="value",
            witness=axis,
            help="select parts of one shape on both sides with `ref.at[pl.ds(start, size), ...]`",
        )


def _words(ref: RefFact) -> str:
    known = shown(ref.shape, ref.dtype)
    return known if ref.dtype is not None else known.removeprefix("?")


def _differing(source: Shape, target: Shape, context: Context) -> str | None:
    """How two shapes certainly differ, in words."""
    if len(source) != len(target):
        return f"rank {len(target)} against {len(source)}"
    for axis, (have, want) in enumerate(zip(source, target, strict=True)):
        if (
            have is not None
            and want is not None
            and isinstance(solve.equal(want, have, context.facts), solve.Refuted)
        ):
            return f"axis {axis}: {want} against {have}"
    return None
