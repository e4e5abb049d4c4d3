"""`index-out-of-bounds`."""

from collections.abc import Iterator

from typedpallas.events import Context, Event, Slice, SlicePart, Step
from typedpallas.rules._kernels import array, module
from typedpallas.rules.base import Example, Finding, Rule

_KERNEL = """
def kernel(x_ref, o_ref):
    def step(k, total):
        return total + jnp.sum(x_ref[pl.ds(k * 16, 16), :], axis=0, keepdims=True)

    o_ref[...] = jax.lax.fori_loop(0, {turns}, step, jnp.zeros((1, 128), jnp.float32))
"""


def _example(turns: int, reference: str) -> str:
    return module(
        kernel=_KERNEL.format(turns=turns),
        call="pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((1, 128), jnp.float32))(x)",
        reference=reference,
        args=(array("40, 128"),),
    )


class IndexOutOfBounds(Rule):
    """An index or a slice leaves the ref at a step that surely comes.

    Nothing checks it when the kernel runs: a TPU reads and writes whatever lies there, or halts, and interpret mode
    moves the slice back inside, so tests pass. Indices do not count from the end: -1 is outside. What depends on data
    is not judged, nor is what a mask leaves out. Steps that fit from one loaded number only are left open; so is a
    number that is loaded from outside where a select may drop it.

    Machines: all. Source: the semantics of a ref, a window of just its extents. JAX itself refuses constants beyond
    the end (not below 0, nor a start of 0 that is too long); steps of loops and grids it does not look at.
    """

    slug = "index-out-of-bounds"
    judges = (Slice,)
    message = "index of `{name}` is out of bounds on axis {axis}: expected {expected}, found {found}"
    example = Example(
        bad=_example(3, "jnp.sum(x, axis=0, keepdims=True)"),
        good=_example(2, "jnp.sum(x[:32], axis=0, keepdims=True)"),
        targets=("tpu-v5e", "tpu-7x"),
        compiler="accepts",
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, Slice)
        for number, part in enumerate(event.parts):
            step = part.outside
            if part.only is not None:
                yield self._counted(event, number, part, part.only)
            if step is None or part.size is None:
                continue
            at = ", ".join(f"{name} = {value}" for name, value in step.at.items())
            make = self.open if event.picked else self.refuted
            yield make(
                blame="index",
                name=event.name,
                axis=number if part.axis is None else part.axis,
                expected=_expected(part),
                found=_found(part, step),
                witness=f"at {at}" if at else "",
                notes=("nothing checks an index when the kernel runs: it reaches what lies beside the ref",),
                help=_help(part, step),
            )

    def _counted(self, event: Slice, number: int, part: SlicePart, only: int) -> Finding:
        """Data decides where the steps begin, and they fit from one beginning only."""
        return self.open(
            blame="index",
            name=event.name,
            axis=number if part.axis is None else part.axis,
            expected=_expected(part),
            found="steps that are counted from a loaded number",
            notes=(f"they take up the whole axis: it holds only where that number is {only}",),
            help="pad the array by as much as the number can be, or clamp the start with `jnp.minimum`",
        )


def _span(part: SlicePart) -> int:
    assert part.size is not None
    return (part.size - 1) * part.stride + 1


def _expected(part: SlicePart) -> str:
    if part.squeezed:
        return f"an index from 0 to {part.extent - 1}"
    return f"elements from 0 to {part.extent - 1}"


def _found(part: SlicePart, step: Step) -> str:
    if part.squeezed:
        return str(step.start)
    last = step.start + _span(part) - 1
    stride = f" {part.stride} apart" if part.stride != 1 else ""
    return f"{step.start} to {last} ({part.size} elements{stride} from {step.start})"


def _help(part: SlicePart, step: Step) -> str:
    last = part.extent - _span(part)
    if last < 0:
        return f"take at most {(part.extent - 1) // part.stride + 1} elements"
    if step.start < 0 and part.squeezed:
        return f"indices count from 0: the last one is {last}"
    if step.start < 0:
        return f"start between 0 and {last}"
    if not step.at:
        return f"the last index is {last}" if part.squeezed else f"start at {last} at most, or take fewer elements"
    return f"start at {last} at most: end the loop or the grid earlier, or pad the array by {step.start - last}"
