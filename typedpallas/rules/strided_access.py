"""`strided-access`."""

from collections.abc import Iterator

from typedpallas import tpu
from typedpallas.events import Context, Event, Slice
from typedpallas.rules import _blocks
from typedpallas.rules._kernels import array, module
from typedpallas.rules.base import Example, Finding, Rule

_LANES, _WORD = 128, 32
_KERNEL = """
def kernel(x_ref, o_ref):
    o_ref[...] = jnp.zeros_like(o_ref)
    o_ref[{rows}, :] = x_ref[...]
"""
_CALL = "pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((16, {columns}), jnp.float32))(x)"


def _example(columns: int) -> str:
    return module(
        kernel=_KERNEL.format(rows="pl.ds(0, 8, stride=2)"),
        call=_CALL.format(columns=columns),
        reference=f"jnp.zeros((16, {columns}), jnp.float32).at[::2].set(x)",
        args=(array(f"8, {columns}"),),
    )


class StridedAccess(Rule):
    """A load or a store with a stride that a TPU's vector unit does not have.

    `x_ref[pl.ds(0, 8, stride=2), :]` takes every other row with one instruction. It knows rows of at most 128 lanes,
    counted in the buffer and not in what is taken of it; the stride may be along any axis but the last, of a buffer
    with two or more. Loads may be of any element type, stores only of 32 bits. A size of 1 makes no difference.

    Machines: TPU, every chip from v2 to 7x. Source: libtpu 0.0.48 ("The last dim size is not 128 in original base
    memref", "Stride on last dim is not 1", "Strided load with 1D vector", "Strided store with non 32-bit data"),
    asked over extents, axes, element types, windows and scratch.
    """

    slug = "strided-access"
    judges = (Slice,)
    message = "a {op} of `{name}` has a stride on axis {axis}: expected {expected}, found {found}"
    example = Example(bad=_example(256), good=_example(128), targets=("tpu-v5e", "tpu-7x"))

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, Slice)
        if context.machine != "tpu" or event.space is not tpu.VMEM or not event.laid_out:
            return
        strided = [axis for axis, part in enumerate(event.parts) if part.stride != 1]
        if event.op not in ("load", "store") or not strided:
            return
        misfit = _misfit(event, strided)
        if misfit is not None:
            expected, found, edit = misfit
            axis = event.parts[strided[0]].axis
            yield self.refuted(
                blame="index",
                op=event.op,
                name=event.name,
                axis=strided[0] if axis is None else axis,
                expected=expected,
                found=found,
                help=edit,
            )


def _misfit(event: Slice, strided: list[int]) -> tuple[str, str, str] | None:
    """What the instruction does not take: what it would, what there is, and the edit."""
    last, width = event.parts[-1], _blocks.bits(event.dtype)
    if len(event.parts) == 1:
        return "two axes or more", "one", "make it rows of 128 lanes, and take every so many rows"
    if len(event.parts) - 1 in strided:
        return "a stride of 1 on the last axis", f"{last.stride}", f"load it whole, and take `[..., ::{last.stride}]`"
    if last.extent > _LANES:
        found = f"rows of {last.extent}"
        return f"rows of at most {_LANES} lanes", found, f"keep it in buffers of {_LANES} lanes each"
    if event.op == "store" and width is not None and event.dtype != "bool" and width < _WORD:
        return (
            "elements of 32 bits to store",
            f"{width}",
            "keep the buffer in 32 bits, and narrow it when all is there",
        )
    return None
