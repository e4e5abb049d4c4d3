"""`wgmma-operand-space`."""

from collections.abc import Iterator

from typedpallas import gpu, spaces
from typedpallas.events import Context, Event, MatrixOperand, MatrixProduct
from typedpallas.rules import _products
from typedpallas.rules.base import Example, Finding, Rule
from typedpallas.spaces import MemorySpace

_LEFT: dict[str, tuple[type[MemorySpace], ...]] = {"wgmma": (gpu.SMEM,), "tcgen05_mma": (gpu.SMEM, gpu.TMEM)}
_SUM: dict[str, type[MemorySpace]] = {"wgmma": gpu.ACC, "tcgen05_mma": gpu.TMEM}


class WgmmaOperandSpace(Rule):
    """An operand of a matrix product lies where the matrix unit cannot read it.

    On Hopper `wgmma` reads its right operand from shared memory, the left one from there or from registers (a value),
    and sums in `plgpu.ACC`. On Blackwell `tcgen05_mma` reads shared memory, the left operand also from tensor memory,
    and sums in tensor memory. Global memory has to be copied first.

    Machines: GPU (Mosaic GPU). Source: its lowering, which refuses a `wgmma` of global memory as an "Unsupported
    memory space" with no line, asked on h100; JAX's tracing for `tcgen05_mma`, on b200.
    """

    slug = "wgmma-operand-space"
    judges = (MatrixProduct,)
    message = "`{instruction}` cannot read `{name}`: expected {expected}, found `{found}`"
    example = Example(bad=_products.module(a="x"), good=_products.module(), targets=("h100",))

    def judge(self, event: Event, context: Context) -> Iterator[Finding]:
        assert isinstance(event, MatrixProduct)
        if not _products.judged(event, context):
            return
        yield from self._operand(event, event.a, _LEFT[event.instruction])
        yield from self._operand(event, event.b, (gpu.SMEM,))
        yield from self._operand(event, event.acc, (_SUM[event.instruction],))

    def _operand(
        self, event: MatrixProduct, operand: MatrixOperand, taken: tuple[type[MemorySpace], ...]
    ) -> Iterator[Finding]:
        space = operand.space
        if space is None or space in taken:
            return
        yield self.refuted(
            instruction=event.instruction,
            name=operand.name,
            expected=" or ".join(f"`{spaces.name(t)}`" for t in taken),
            found=spaces.name(space),
            help=f"copy `{operand.name}` into a `plgpu.SMEM` buffer first (`plgpu.copy_gmem_to_smem`, then wait)"
            if space is gpu.GMEM
            else f"keep `{operand.name}` in `{spaces.name(taken[0])}`",
        )
