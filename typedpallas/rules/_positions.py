"""Positions of a row's largest or least element, where the row takes more than one register.

Asked of libtpu 0.0.48.1 about `jnp.argmax` and `jnp.argmin` of f32 blocks of 1 to 100 rows and 64 to 384 lanes: v2
and v3 take up to 128 lanes, later chips all.
"""

from typedpallas.chips import TpuTarget
from typedpallas.dims import Facts, Size
from typedpallas.events import Applied, Context
from typedpallas.solve import Refuted, at_most

_LANES = Size.of(128)
_LAST = 3
"""The last generation without."""


def refused(event: Applied, context: Context) -> tuple[str, str, str] | None:
    """What is expected of the operation, what was found, and what to write instead; none where the chip takes it."""
    target = context.target
    if event.primitive not in ("argmax", "argmin") or not isinstance(target, TpuTarget) or target.generation > _LAST:
        return None
    shape = event.operands[0].shape
    axes = event.parameters.get("axes")
    if not isinstance(axes, tuple) or len(shape) - 1 not in axes or shape[-1] is None:
        return None
    if not isinstance(at_most(shape[-1], _LANES, Facts()), Refuted):
        return None
    return (
        f"at most 128 lanes on `{target.name}`",
        f"{event.primitive} over {shape[-1]}",
        "take it over each 128 lanes and compare the results, or over the rows of the transposed block",
    )
