"""`wrong-compiler-params`."""

from collections.abc import Iterator

from typedpallas.events import Context, Event, WrongParameters
from typedpallas.rules.base import Example, Finding, Rule

_MODULE = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

ARGS = (jax.ShapeDtypeStruct((8, 128), jnp.float32),)

def kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...] * 2.0

def run(x):
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32),
        compiler_params={params},
    )(x)

def reference(x):
    return x * 2.0
"""

_EXPECTED = {
    "a dict": "a dataclass, such as `pltpu.CompilerParams`",
    "no collective_id": "a `collective_id`, which says which barrier semaphore it is",
    "collective_id without barrier": "no `collective_id`, or a kernel that asks for the barrier semaphore",
    "collective_id beside tag": "one of them: `collective_id`, or the `tag` that `get_barrier_semaphore` is given",
}
_HELP = {
    "a dict": "write `compiler_params=pltpu.CompilerParams(...)` with the dict's entries as arguments",
    "no collective_id": "give the launch `compiler_params=pltpu.CompilerParams(collective_id=0)`, another number for "
    "each kernel that meets other devices",
    "collective_id without barrier": "leave `collective_id` out, or let the devices meet at "
    "`pltpu.get_barrier_semaphore()` before they send",
    "collective_id beside tag": "leave one of them out",
}


class WrongCompilerParams(Rule):
    """A launch's compiler parameters are of a wrong type, or do not fit what its kernel does.

    Each backend has a dataclass of its own parameters; older versions of JAX took dicts. The barrier semaphore of a
    TPU is one that all devices have in common, and `collective_id` says which; a kernel without it must not have one.

    Machines: TPU, GPU. Source: JAX 0.11.2 and 0.12.0 refuse them when they lower ("unhashable type: 'dict'",
    "collective_id has to be specified when using a custom barrier", "... has to be unspecified or None when not using
    a custom barrier").
    """

    slug = "wrong-compiler-params"
    judges = (WrongParameters,)
    message = "the compiler parameters of `{kernel}` do not fit it: expected {expected}, found {found}"
    example = Example(
        bad=_MODULE.format(params="pltpu.CompilerParams(collective_id=0)"),
        good=_MODULE.format(params="pltpu.CompilerParams()"),
        targets=("tpu-v5e",),
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, WrongParameters)
        yield self.refuted(
            kernel=event.kernel, expected=_EXPECTED[event.why], found=event.found, help=_HELP[event.why]
        )
