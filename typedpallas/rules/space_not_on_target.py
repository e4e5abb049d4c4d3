"""`space-not-on-target`."""

from collections.abc import Iterator

from typedpallas import gpu, spaces, tpu
from typedpallas.chips import GpuTarget
from typedpallas.events import Context, Event, Placement
from typedpallas.rules._kernels import array, module
from typedpallas.rules.base import Example, Finding, Rule

_BAD = """
def kernel(
    x: In[VMEM, f32, L[16], L[128]], o: Out[VMEM, f32, L[16], L[128]], acc: Scratch[VMEM, f32, L[16], L[128]]
) -> None:
    acc[...] = x[...] * 2.0
    o[...] = acc[...]
"""
_GOOD = """
def kernel(x: In[BLOCK, f32, L[16], L[128]], o: Out[BLOCK, f32, L[16], L[128]]) -> None:
    o[...] = x[...] * 2.0
"""


def _module(kernel: str, scratch: str, machine: str, typed: str) -> str:
    return module(
        machine=machine,
        typed=typed,
        args=(array("16, 128"),),
        kernel=kernel,
        call=f"pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((16, 128), jnp.float32){scratch})(x)",
        reference="x * 2.0",
    )


_MEANT_FOR_COPIES = (tpu.CMEM, tpu.VMEM_SHARED)


class SpaceNotOnTarget(Rule):
    """A buffer is asked for in a memory space that the target does not have, or cannot give to a kernel.

    Spaces belong to a machine: TPU's `SMEM` is not a GPU's. Triton kernels have no scratch of any kind (their refs
    are global memory, whatever a `BlockSpec` says); TMEM came with Blackwell (compute capability 10), barriers with
    Ampere (8). On a TPU, scratch is VMEM, SMEM or semaphores: room in HBM has to be an operand.

    Machines: all. Source: JAX's lowerings and the compilers behind them, asked for every space as an operand and
    as scratch on v4 to 7x, and through Triton and Mosaic GPU on t4, a100, h100 and b200.
    """

    slug = "space-not-on-target"
    judges = (Placement,)
    message = "`{name}` is in `{space}`, which {target} cannot give: expected {expected}, found `{found}`"
    example = Example(
        bad=_module(
            _BAD,
            ", scratch_shapes=[pltpu.VMEM((16, 128), jnp.float32)]",
            "tpu",
            "from typedpallas import In, Out, Scratch, f32\nfrom typedpallas.tpu import VMEM\n",
        ),
        good=_module(_GOOD, "", "", "from typedpallas import BLOCK, In, Out, f32\n"),
        targets=("h100",),
        levels=("trace",),
    )

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, Placement)
        refusal = _refusal(event, context)
        if refusal is None:
            return
        target, expected, advice = refusal
        yield self.refuted(
            name=event.name,
            space=spaces.name(event.space),
            target=target,
            expected=expected,
            found=spaces.name(event.space),
            help=advice,
        )


def _refusal(event: Placement, context: Context) -> tuple[str, str, str] | None:
    """What cannot give the space, what it has instead, and what to do; none if nothing is known against it."""
    space, scratch = event.space, event.role == "scratch"
    if context.backend == "triton":
        if not scratch or space.machine is None:
            return None
        return "Triton", "no scratch", "carry the values through a loop, or use Mosaic GPU (`plgpu.kernel`)"
    if context.backend == "mosaic_tpu" or context.machine == "tpu":
        if space.machine == "gpu":
            return "a TPU", "`tpu.VMEM` or `tpu.SMEM`", "use the spaces of `typedpallas.tpu`"
        if space in _MEANT_FOR_COPIES:
            return "the compiler", "`tpu.VMEM` or `tpu.SMEM`", "put it in `tpu.VMEM`"
        if scratch and space in (tpu.HBM, tpu.ANY):
            advice = "put it in `tpu.VMEM`; for room in HBM, add an output with `pl.BlockSpec(memory_space=pl.ANY)`"
            return "a kernel's scratch", "`tpu.VMEM` or `tpu.SMEM`", advice
        return None
    if context.backend == "mosaic_gpu":
        if space.machine == "tpu" and scratch:
            return "a GPU", "`gpu.SMEM`, `gpu.TMEM` or `gpu.ACC`", "use the spaces of `typedpallas.gpu`"
        chip = context.target
        if space is gpu.TMEM and isinstance(chip, GpuTarget) and chip.capability < (10, 0):
            return chip.name, "`gpu.ACC`", "accumulate in registers: `plgpu.ACC` and `plgpu.wgmma`"
        if issubclass(space, gpu.Barrier) and isinstance(chip, GpuTarget) and chip.capability < (8, 0):
            return chip.name, "no barriers", "load and store values; barriers came with compute capability 8.0"
    return None
