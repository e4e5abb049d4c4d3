"""`shape-mismatch`."""

from collections.abc import Iterator

from typedpallas import solve
from typedpallas.dims import Size
from typedpallas.events import Access, Argument, Context, Event, Operation, Shape
from typedpallas.rules._kernels import array, module
from typedpallas.rules._shapes import shown
from typedpallas.rules.base import Example, Finding, Rule

_KERNEL = """
def kernel(x: In[BLOCK, f32, L[8], L[128]], o: Out[BLOCK, f32, L[8], L[1]]) -> None:
    o[...] = {value}
"""


def _module(value: str) -> str:
    return module(
        typed="from typedpallas import BLOCK, In, Out, f32\n",
        args=(array("8, 128"),),
        kernel=_KERNEL.format(value=value),
        call="pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, 1), jnp.float32))(x)",
        reference="jnp.max(x, axis=1, keepdims=True)",
    )


class ShapeMismatch(Rule):
    """Shapes that do not fit: a value and the part of a ref that it is stored to, operands, a helper's arguments.

    A store to a ref broadcasts nothing, not even a scalar: the value has exactly the shape that the index selects.

    Machines: all. Source: JAX's abstract evaluation of the operation, and of ref stores, refuses it while tracing.
    """

    slug = "shape-mismatch"
    judges = (Access, Operation, Argument)
    message = "{what}: expected {expected}, found {found}"
    example = Example(
        bad=_module("jnp.max(x[...], axis=1)"),
        good=_module("jnp.max(x[...], axis=1, keepdims=True)"),
        targets=("tpu-v5e", "h100"),
        levels=("types", "trace"),
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        if isinstance(event, Operation):
            if event.kind == "shape":
                yield self._operation(event)
            return
        if isinstance(event, Argument):
            if event.what in ("argument", "result"):
                yield from self._argument(event, context)
            return
        assert isinstance(event, Access)
        if event.op == "store" and event.moved is not None and event.value_shape is not None:
            yield from self._store(event, context)

    def _operation(self, event: Operation) -> Finding:
        return self.refuted(
            what=f"`{event.function}` cannot take these shapes",
            expected="operands that fit",
            found=", ".join(f"`{operand}`" for operand in event.operands) or "shapes that do not",
            notes=(f"{event.by} says: {event.refusal}",),
            help=_operation_help(event),
        )

    def _argument(self, event: Argument, context: Context) -> Iterator[Finding]:
        if event.ref.shape is None or event.block is None:
            return
        differing = _differing(event.ref.shape, event.block, context)
        if differing is None:
            return
        back = event.what == "result"
        yield self.refuted(
            what=f"`{event.kernel}` gives back another shape than its annotation"
            if back
            else f"`{event.ref.name}` of `{event.kernel}` gets another shape than its annotation",
            expected=f"`{shown(event.ref.shape, event.ref.dtype)}`",
            found=f"`{shown(event.block, event.dtype)}`",
            witness=differing,
            notes=tuple(f"`{name}` is {event.sizes.get(name, name)}, {o}" for name, o in event.origins.items()),
            help="bring the result to that shape, or annotate what the function does give back"
            if back
            else f"pass an array or a part of that shape, or annotate `{event.ref.name}` for others",
        )

    def _store(self, event: Access, context: Context) -> Iterator[Finding]:
        assert event.moved is not None and event.value_shape is not None
        if len(event.moved) != len(event.value_shape):
            yield self._stored(event, "refuted", f"rank {len(event.moved)} against {len(event.value_shape)}")
            return
        for axis, (want, have) in enumerate(zip(event.moved, event.value_shape, strict=True)):
            if want is None or have is None:
                continue
            verdict = solve.equal(want, have, context.facts)
            if isinstance(verdict, solve.Refuted):
                yield self._stored(event, "refuted", _numbers(axis, want, have, verdict.witness))
                return
            if isinstance(verdict, solve.Open):
                yield self._stored(event, "open", f"axis {axis}: {verdict.closes}")
                return

    def _stored(self, event: Access, verdict: str, witness: str) -> Finding:
        make = self.refuted if verdict == "refuted" else self.open
        moved, value = shown(event.moved, event.ref.dtype), shown(event.value_shape, event.value_dtype)
        return make(
            what=f"cannot store to `{event.ref.name}`",
            expected=f"`{moved}`",
            found=f"`{value}`",
            witness=witness,
            blame="value",
            help=_store_help(event),
        )


def _differing(wanted: Shape, given: Shape, context: Context) -> str | None:
    """How two shapes certainly differ, in numbers."""
    if len(wanted) != len(given):
        return f"rank {len(wanted)} against {len(given)}"
    for axis, (want, have) in enumerate(zip(wanted, given, strict=True)):
        verdict = None if want is None or have is None else solve.equal(want, have, context.facts)
        if want is not None and have is not None and isinstance(verdict, solve.Refuted):
            return _numbers(axis, want, have, verdict.witness)
    return None


def _numbers(axis: int, want: Size, have: Size, witness: object) -> str:
    values = dict(witness) if isinstance(witness, dict) else {}
    if not values:
        return f"axis {axis}: {want} against {have}"
    names = ", ".join(f"{name} = {value}" for name, value in values.items())
    return f"{names}: axis {axis} is {want.evaluate(values)} against {have.evaluate(values)}"


def _operation_help(event: Operation) -> str:
    if event.by == "typedpallas":
        return "say which operand is transposed, `transpose_x=True` or `transpose_y=True`, or load another part of it"
    if "contract" in event.refusal:
        return "the axes that are summed over differ: transpose an operand with `.T`, or sum over another axis"
    return (
        "print the shapes beside each other; `[:, None]`, `keepdims=True` and `jnp.broadcast_to` add axes, "
        "a block size that was rounded to 0 is a sign of a dim smaller than a tile"
    )


def _store_help(event: Access) -> str:
    moved, value = event.moved or (), event.value_shape or ()
    if not value:
        return "stores broadcast nothing: use `jnp.full_like`, or index one element of a ref in scalar memory"
    if len(value) == len(moved) - 1:
        return "add the missing axis: `keepdims=True`, or `[:, None]`"
    return "select the part of the ref that the value is for, or bring the value to that shape"
