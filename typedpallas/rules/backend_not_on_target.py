"""`backend-not-on-target`."""

from collections.abc import Iterator

from typedpallas.chips import GpuTarget
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


_OLDEST = {"triton": (8, 0)}
"""The first compute capability that a backend serves."""
_MACHINES = {"mosaic_tpu": "tpu", "mosaic_gpu": "gpu", "triton": "gpu"}
_NAMES = {"mosaic_tpu": "Mosaic TPU", "mosaic_gpu": "Mosaic GPU", "triton": "Triton"}


class BackendNotOnTarget(Rule):
    """A kernel goes through a backend that does not serve the target: one that its compiler parameters or its mesh
    name, or the machine's usual one.

    On a GPU `pl.pallas_call` goes through Triton, which starts with compute capability 8.0: a T4 is served by Mosaic
    GPU alone (`plgpu.kernel`). Mosaic GPU's parameters on a `pl.pallas_call` are for nobody any more.

    Machines: all. Source: JAX finds no lowering for the parameters' class on the other machine and fails with an
    `AssertionError` that says nothing; for a mesh it says so. Asked on v5e, h100 and t4, for
    Mosaic GPU's parameters with JAX 0.11.2 and 0.12.0.1.
    """

    slug = "backend-not-on-target"
    judges = (BuiltFor,)
    message = "`{kernel}` {how} {found}: expected a kernel for {expected}"
    example = Example(
        bad=_module(", compiler_params=pltpu.CompilerParams()"),
        good=_module(""),
        targets=("h100",),
        levels=("trace",),
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, BuiltFor)
        chip = context.target
        if chip is None:
            return
        found, advice = _NAMES[event.backend], "leave the parameters out, choose them by the machine, or check for "
        advice += "a target of that machine"
        if _MACHINES[event.backend] == chip.machine:
            if event.lowered is False:
                yield self._no_such_call(event, chip.name)
                return
            if not isinstance(chip, GpuTarget) or chip.capability >= _OLDEST.get(event.backend, (0, 0)):
                return
            oldest = ".".join(map(str, _OLDEST[event.backend]))
            found += f", which serves compute capability {oldest} and newer"
            advice = f"write it for Mosaic GPU (`plgpu.kernel`); {chip.name} has compute capability "
            advice += chip.compute_capability
        source = event.source
        yield self.refuted(
            kernel=event.kernel,
            how="goes through" if source is None else f"is written, by its {source}, for",
            found=found,
            expected=chip.name,
            help=advice,
        )

    def _no_such_call(self, event: BuiltFor, target: str) -> Finding:
        return self.refuted(
            kernel=event.kernel,
            how=f"is a `pl.pallas_call` written, by its {event.source}, for",
            found=f"{_NAMES[event.backend]}, which lowers none",
            expected=target,
            help="launch it with `plgpu.kernel` and `plgpu.emit_pipeline`, or leave the parameters out: then "
            "`pl.pallas_call` goes through Triton",
        )
