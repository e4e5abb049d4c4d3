"""`wrong-space`."""

from collections.abc import Iterator

from typedpallas import spaces
from typedpallas.events import Argument, Context, Event
from typedpallas.rules.base import Example, Finding, Rule
from typedpallas.spaces import MemorySpace, Portable

_CALL = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from typing import Literal as L
from typedpallas import In, Out, f32
from typedpallas.tpu import {space}, VMEM

ARGS = (jax.ShapeDtypeStruct((8, 128), jnp.float32),)

def copy(x: In[{space}, f32, L[8], L[128]], o: Out[VMEM, f32, L[8], L[128]]) -> None:
    {body}

def run(x: jax.Array) -> jax.Array:
    return pl.pallas_call(
        copy,
        in_specs=[pl.BlockSpec(memory_space=pltpu.{given})],
        out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32),
    )(x)

def reference(x: jax.Array) -> jax.Array:
    return x
"""

_COPIED = (("HBM", "ANY"),)
"""Spaces of one machine that a kernel uses alike: by copies only."""


class WrongSpace(Rule):
    """A launch places a buffer in another memory space than the kernel's annotation says.

    What a kernel may do with a ref follows from its space, and the annotation is what the body was checked
    against; the same goes for a ref that a call passes to a helper. The portable spaces accept what their backend
    makes of them, and `HBM` and `ANY` are one here: both are reached by copies only.

    Machines: all. Source: the kernel's own signature; a block spec of `pl.pallas_call` without `memory_space` is
    VMEM on TPU.
    """

    slug = "wrong-space"
    judges = (Argument,)
    message = "`{name}` of `{kernel}` lies in the wrong memory space: expected `{expected}`, found `{found}`"
    example = Example(
        bad=_CALL.format(space="HBM", given="VMEM", body="pltpu.sync_copy(x, o)"),
        good=_CALL.format(space="HBM", given="HBM", body="pltpu.sync_copy(x, o)"),
        targets=("tpu-v5e",),
        levels=("types",),
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, Argument)
        if event.ref.space is None or event.space is None or _fits(event.ref.space, event.space):
            return
        yield self.refuted(
            name=event.ref.name,
            kernel=event.kernel,
            expected=spaces.name(event.ref.space),
            found=spaces.name(event.space),
            notes=(f"`{event.ref.name}` gets {event.source}",) if event.source else (),
            help=_help(event, event.ref.space, event.space),
            blame="space",
        )


def _help(event: Argument, wanted: type[MemorySpace], given: type[MemorySpace]) -> str:
    if event.what == "argument":
        return f"pass one that lies in `{wanted.__name__}`" if wanted.data else f"pass a `{wanted.__name__}`"
    return f"place it in `{wanted.__name__}`, or annotate `{event.ref.name}` with `{given.__name__}`"


def _fits(annotated: type[MemorySpace], given: type[MemorySpace]) -> bool:
    if issubclass(annotated, Portable) or issubclass(given, Portable) or annotated is given:
        return True
    same_machine = annotated.machine == given.machine
    return same_machine and any({annotated.__name__, given.__name__} <= set(pair) for pair in _COPIED)
