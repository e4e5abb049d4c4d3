"""`uneven-vector`."""

import math
from collections.abc import Iterator

from typedpallas.events import Context, Event, RegisterLoad
from typedpallas.rules.base import Example, Finding, Rule

_THREADS = 128
_MODULE = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

N = {size}
ARGS = (jax.ShapeDtypeStruct((N,), jnp.float32),)

def kernel(x, o):
    o[...] = x[...] * 2.0

def run(x):
    return plgpu.kernel(kernel, out_type=jax.ShapeDtypeStruct((N,), jnp.float32))(x)

def reference(x):
    return x * 2.0
"""


class UnevenVector(Rule):
    """A vector whose elements the 128 threads of a warpgroup cannot share out evenly.

    A value of a Mosaic GPU kernel lies in the registers of a whole warpgroup, as many elements in each thread. Unless
    the kernel names another layout (`plgpu.load(..., layout=...)`, `plgpu.layout_cast`) or a matrix product brings
    one, it has a multiple of 128 elements. Single numbers, loaded at an index, are as they are.

    Machines: GPU (Mosaic GPU). Source: its lowering ("Failed to infer a possible set of layouts"), asked for loads of
    23 shapes from global and from shared memory on h100, stored, copied, summed and broadcast.
    """

    slug = "uneven-vector"
    judges = (RegisterLoad,)
    message = "a warpgroup cannot hold `{name}`: expected a multiple of {expected} elements, found {found}"
    example = Example(bad=_MODULE.format(size=100), good=_MODULE.format(size=128), targets=("h100",))

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, RegisterLoad)
        count = math.prod(event.shape)
        if count % _THREADS == 0:
            return
        above = -(-count // _THREADS) * _THREADS
        yield self.refuted(
            name=event.name,
            expected=str(_THREADS),
            found=f"{count} ({' x '.join(map(str, event.shape))})",
            help=f"load a block of {above} elements, or one number at an index; a layout of your own "
            "(`plgpu.load(..., layout=...)`) may take others",
        )
