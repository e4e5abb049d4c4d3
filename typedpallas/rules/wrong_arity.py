"""`wrong-arity`."""

from collections.abc import Iterator

from typedpallas.events import Context, Event, Operands
from typedpallas.rules.base import Example, Finding, Rule

_LAUNCH = """
import jax
import jax.numpy as jnp
from typing import Literal as L
import typedpallas as tp
from typedpallas import In, Multiple, Out, f32

ARGS = (jax.ShapeDtypeStruct((32, 128), jnp.float32), jax.ShapeDtypeStruct((32, 128), jnp.float32))

def add[BM: Multiple[L[8]], N: Multiple[L[128]]](
    x: In[tp.BLOCK, f32, BM, N],
    y: In[tp.BLOCK, f32, BM, N],
    o: Out[tp.BLOCK, f32, BM, N],
) -> None:
    o[...] = x[...] + y[...]

added = tp.launch(add, "{inputs} -> (i BM) N", grid="i")

def run(x: jax.Array, y: jax.Array) -> jax.Array:
    return added(x, y, BM=8)

def reference(x: jax.Array, y: jax.Array) -> jax.Array:
    return x + y
"""

_KINDS = {"in": "input", "out": "output", "scratch": "scratch buffer"}
_ANNOTATION = {"in": "In", "out": "Out", "inout": "InOut", "scratch": "Scratch", "ref": "Ref"}
_FITS = {
    "in": ("in", "inout", "ref", None),
    "out": ("out", "inout", "ref", None),
    "scratch": ("scratch", "ref", None),
}


class WrongArity(Rule):
    """A launch hands its kernel more or fewer refs than it takes, or in another order.

    A kernel gets its refs in one order: the inputs, the outputs, then the scratch buffers. There is one
    parameter for each, and its annotation says which it is: `In`, `Out`, `Scratch` (`InOut` and `Ref` may be
    an input or an output).

    Machines: all. Source: `pl.pallas_call` calls the kernel so; too many or too few are a TypeError there, and
    another order goes unnoticed.
    """

    slug = "wrong-arity"
    judges = (Operands,)
    message = "`{kernel}` and {source} disagree on {what}: expected {expected}, found {found}"
    example = Example(
        bad=_LAUNCH.format(inputs="(i BM) N"),
        good=_LAUNCH.format(inputs="(i BM) N, (i BM) N"),
        targets=("tpu-v5e",),
        levels=("types",),
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, Operands)
        fault = _order(event) or _counts(event) or _roles(event)
        if fault is not None:
            what, expected, found, help_, blame = fault
            yield self.refuted(
                kernel=event.kernel,
                source=event.source,
                what=what,
                expected=expected,
                found=found,
                help=help_,
                blame=blame,
            )


type _Fault = tuple[str, str, str, str, str]


def _order(event: Operands) -> _Fault | None:
    """A parameter that its annotation puts before one that precedes it."""
    rank = {"in": 0, "inout": 0, "out": 1, "scratch": 2}
    last = ""
    for name, direction in event.parameters:
        if direction is None or direction == "ref":
            continue
        before = dict(event.parameters).get(last)
        if before is not None and rank[direction] < rank[before] and direction != "inout":
            found = f"`{name}` ({_ANNOTATION[direction]}) after `{last}` ({_ANNOTATION[before]})"
            edit = f"move `{name}` before `{last}` in `{event.kernel}`"
            return "the order of its parameters", "inputs, outputs, scratch", found, edit, f"parameter[{name}]"
        last = name
    return None


def _counts(event: Operands) -> _Fault | None:
    """More or fewer refs than parameters, told by kind where every annotation has one."""
    given = {"in": event.inputs, "out": event.outputs, "scratch": event.scratch}
    kinds = {direction for _, direction in event.parameters}
    if kinds <= {"in", "out", "scratch"}:
        for kind, count in given.items():
            names = [name for name, direction in event.parameters if direction == kind]
            if count is not None and count != len(names):
                return _miscount(f"the number of {_KINDS[kind]}s", names, count, kind)
        return None
    known = [count for count in given.values() if count is not None]
    names = [name for name, _ in event.parameters]
    if len(known) == len(given) and sum(known) != len(names):
        return _miscount("the number of refs", names, sum(known), "")
    if sum(known) > len(names):
        return _miscount("the number of refs", names, sum(known), "")
    return None


def _miscount(what: str, names: list[str], count: int, blame: str) -> _Fault:
    shown = ", ".join(f"`{name}`" for name in names)
    return what, f"{len(names)} ({shown})" if names else "none", str(count), "", blame


def _roles(event: Operands) -> _Fault | None:
    """A parameter whose annotation contradicts the place in which it stands."""
    if event.inputs is None or event.outputs is None:
        return None
    for position, (name, direction) in enumerate(event.parameters):
        outputs_end = event.inputs + event.outputs
        role = "in" if position < event.inputs else "out" if position < outputs_end else "scratch"
        if direction not in _FITS[role]:
            expected = f"`{_ANNOTATION[str(direction)]}`"
            found = f"{_article(_KINDS[role])} there"
            return f"the role of `{name}`", expected, found, "", f"parameter[{name}]"
    return None


def _article(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"
