"""`wrong-block`."""

from collections.abc import Iterator

from typedpallas import solve
from typedpallas.dims import Size
from typedpallas.events import Argument, Context, Event
from typedpallas.rules.base import Example, Finding, Rule

_LAUNCH = """
import jax
import jax.numpy as jnp
from typing import Literal as L
import typedpallas as tp
from typedpallas import In, Multiple, Out, f32

ARGS = (jax.ShapeDtypeStruct((64, 256), jnp.float32),)

def double[BM: Multiple[L[8]], BN: Multiple[L[128]]](
    x: In[tp.BLOCK, f32, BM, BN],
    o: Out[tp.BLOCK, f32, BM, BN],
) -> None:
    o[...] = x[...] * 2.0

doubled = tp.launch(double, "{operand} -> (i BM) (j BN)", grid="i j")

def run(x: jax.Array) -> jax.Array:
    return doubled(x, BM=8, BN=128)

def reference(x: jax.Array) -> jax.Array:
    return x * 2.0
"""


class WrongBlock(Rule):
    """What a launch cuts out for a kernel parameter is not what its annotation says.

    The block of an operand, squeezed dims left out, is the ref that the kernel sees. Its rank is the rank of the
    annotation; each size is the number there, or goes by the name of the type parameter there.

    Machines: all. Source: the kernel's own signature.
    """

    slug = "wrong-block"
    judges = (Argument,)
    message = "the {what} of `{name}` does not fit its {against}{where}: expected {expected}, found {found}"
    example = Example(
        bad=_LAUNCH.format(operand="(i BN) (j BM)"),
        good=_LAUNCH.format(operand="(i BM) (j BN)"),
        targets=("tpu-v5e",),
        levels=("types",),
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, Argument)
        if event.what in ("argument", "result") or event.block is None or event.ref.shape is None:
            return
        if len(event.block) != len(event.ref.shape):
            yield self._rank(event)
            return
        for axis, (annotated, found) in enumerate(zip(event.ref.shape, event.block, strict=True)):
            if annotated is None or found is None:
                continue
            expected = annotated.substitute(event.sizes)
            verdict = solve.equal(expected, found, context.facts)
            if isinstance(verdict, solve.Refuted):
                yield self.refuted(
                    **_what(event),
                    name=event.ref.name,
                    where=f" on axis {axis}",
                    expected=f"{expected}" if expected == annotated else f"{annotated} = {expected}",
                    found=f"{found}",
                    witness=_witness(expected, found, verdict),
                    notes=(*_source(event), *_origins(event, annotated)),
                    help=_edit(expected, found) if event.what == "block" else "",
                    blame=f"block[{axis}]",
                )

    def _rank(self, event: Argument) -> Finding:
        assert event.block is not None
        assert event.ref.shape is not None
        return self.refuted(
            **_what(event),
            name=event.ref.name,
            where="",
            expected=_ranked(event.ref.shape),
            found=_ranked(event.block),
            notes=_source(event),
            blame="block",
        )


def _what(event: Argument) -> dict[str, str]:
    return {"what": event.what, "against": "annotation" if event.what == "block" else "pattern"}


def _ranked(shape: tuple[Size | None, ...]) -> str:
    known = ", ".join(str(size) for size in shape if size is not None)
    return f"rank {len(shape)} ({known})" if shape and None not in shape else f"rank {len(shape)}"


def _witness(expected: Size, found: Size, verdict: solve.Refuted) -> str:
    if not verdict.witness:
        return ""
    values = ", ".join(f"{name} = {value}" for name, value in sorted(verdict.witness.items()))
    return f"{values}: {expected.evaluate(verdict.witness)} is not {found.evaluate(verdict.witness)}"


def _source(event: Argument) -> tuple[str, ...]:
    return (f"`{event.ref.name}` of `{event.kernel}` gets {event.source}",) if event.source else ()


def _origins(event: Argument, size: Size) -> list[str]:
    names = sorted(size.names & event.origins.keys())
    return [f"`{name}` is {event.sizes.get(name, name)}, {event.origins[name]}" for name in names]


def _edit(expected: Size, found: Size) -> str:
    plain = expected.const is not None or any(expected == Size.of(name) for name in expected.names)
    return (
        f"write `{expected}` where `{found}` stands, or change the annotation" if plain else "change the annotation"
    )
