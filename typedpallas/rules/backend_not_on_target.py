"""`backend-not-on-target`."""

from collections.abc import Iterator

from typedpallas.events import BuiltFor, Context, Event
from typedpallas.rules._kernels import array, module
from typedpallas.rules.base import Example, Finding, Rule

_KERNEL = """
def kernel(x: In[BLOCK, f32, L[8], L[128]], o: Out[BLOCK, f32, L[8], L[128]]) -> None:
    o[...] = x[...] * 2.0
"""


def _module(parameters: str) -> str:
    return module(
        machine="tpu",
        typed="from typedpallas import BLOCK, In, Out, f32\n",
        args=(array("8, 128"),),
        kernel=_KERNEL,
        call=f"pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32){parameters})(x)",
        reference="x * 2.0",
    )


_MACHINES = {"mosaic_tpu": "tpu", "mosaic_gpu": "gpu", "triton": "gpu"}
_NAMES = {"mosaic_tpu": "Mosaic TPU", "mosaic_gpu": "Mosaic GPU", "triton": "Triton"}


class BackendNotOnTarget(Rule):
    """A kernel names a backend, by its compiler parameters or its mesh, that does not serve the target.

    Machines: all. Source: JAX finds no lowering for the parameters' class on the other machine and fails with an
    `AssertionError` that says nothing; for a mesh it says so. Asked on v5e and h100.
    """

    slug = "backend-not-on-target"
    judges = (BuiltFor,)
    message = "`{kernel}` is written for {found}, by its {source}: expected a kernel for {expected}"
    example = Example(
        bad=_module(", compiler_params=pltpu.CompilerParams()"),
        good=_module(""),
        targets=("h100",),
        levels=("trace",),
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, BuiltFor)
        if context.target is None or _MACHINES[event.backend] == context.target.machine:
            return
        yield self.refuted(
            kernel=event.kernel,
            found=_NAMES[event.backend],
            source=event.source,
            expected=context.target.name,
            help="leave the parameters out, choose them by the machine, or check for a target of that machine",
        )
