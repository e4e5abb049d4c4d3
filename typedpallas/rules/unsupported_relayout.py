"""`unsupported-relayout`."""

from collections.abc import Iterator

from typedpallas.chips import TpuTarget
from typedpallas.events import Context, Event, Turned
from typedpallas.rules.base import Example, Finding, Rule

_MODULE = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

ARGS = (jax.ShapeDtypeStruct((16, 256), jnp.float32), jax.ShapeDtypeStruct((16,), jnp.float32))

def kernel(x_ref, row_ref, o_ref):
    o_ref[...] = jnp.where({mask}, x_ref[...], 0.0)

def run(x, row):
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((16, 256), jnp.float32))(x, row)

def reference(x, row):
    return jnp.where(row[:, None] > 0.0, x, 0.0)
"""
_LAST = 4
"""The last generation that cannot turn columns into rows of lanes."""


class UnsupportedRelayout(Rule):
    """A value whose last axis lies across the rows of the vector registers, where it is needed along their lanes, or
    truth values the other way round.

    A sum over the last axis leaves a column: `jnp.sum(x, axis=1)` of a `(256, 512)` block lies across rows. The
    chips up to TPU v4 cannot gather rows, so they cannot lay a column along lanes: to store it in a ref of one dim,
    to sum it once more, to put an axis in front of it. What keeps the column, `keepdims=True` or `[:, None]`, is
    fine, and so is arithmetic with rows of one dim, which are turned into columns instead.

    No TPU turns truth values: `(row > 0)[:, None]` is refused where `row[:, None] > 0` is taken.

    Machines: TPU. Source: libtpu 0.0.48.1, asked on v2 to 7x about sums, maxima, positions of maxima, columns of
    refs and products with a vector, in 1 to 1024 rows, stored, summed, spread and selected.
    """

    slug = "unsupported-relayout"
    judges = (Turned,)
    message = "`{primitive}` cannot turn a {dtype}[{shape}]: expected {expected}, found {found}"
    example = Example(
        bad=_MODULE.format(mask="(row_ref[...] > 0.0)[:, None]"),
        good=_MODULE.format(mask="row_ref[...][:, None] > 0.0"),
        targets=("tpu-v5e",),
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, Turned)
        target = context.target
        if context.backend != "mosaic_tpu":
            return
        shape = ", ".join(map(str, event.shape))
        common = {"primitive": event.primitive, "dtype": event.dtype, "shape": shape}
        if event.what == "mask":
            yield self.refuted(
                **common,
                expected="truth values that are compared where they are used",
                found="a comparison along lanes that becomes a column",
                help="turn the numbers and compare then: `row[:, None] > 0` for `(row > 0)[:, None]`",
            )
        elif isinstance(target, TpuTarget) and target.generation <= _LAST:
            yield self.refuted(
                **common,
                expected="values along lanes",
                found="a column: what is left of a reduction over the last axis lies across rows",
                help="keep the axis: `jnp.sum(x, axis=-1, keepdims=True)`, stored in a ref of `(rows, 1)`; or reduce "
                "the transposed block over its first axis",
            )
