"""The matrix units of NVIDIA GPUs as Mosaic GPU drives them: WGMMA on Hopper, tcgen05 on Blackwell."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

from typedpallas.launching import jaxapi
from typedpallas.launching.errors import Unsupported
from typedpallas.launching.plan import PlannedScratch
from typedpallas.portable import product_dtype

_ROWS = 64
"""Rows of one WGMMA instruction; the layout of its results has as many."""
_HALF = (jnp.float16, jnp.bfloat16)


def wgmma_registers(shape: tuple[int, ...], dtype: Any) -> Any:
    """The type of a WGMMA accumulator."""
    rows, columns = shape
    return plgpu.WGMMAAccumulatorRef((rows, columns), dtype)


class Matrix:
    """One kind of matrix unit."""

    key: str

    def accumulator(self, scratch: PlannedScratch) -> Any:
        """The scratch type of a `tp.ACC`."""
        raise NotImplementedError

    def as_accumulator(self, made: Any) -> Any:
        """What the kernel sees of it."""
        return made

    def clear(self, acc: Any) -> None:
        """Set it to zero before the first step."""

    def mma(self, acc: Any, x: Any, y: Any, transpose_x: bool, transpose_y: bool) -> None:
        """``acc += x @ y``."""
        raise NotImplementedError

    def dot(self, x: Any, y: Any, transpose_x: bool, transpose_y: bool) -> Any:
        """``x @ y`` as a value."""
        raise NotImplementedError

    def load_rows(self, ref: Any) -> Any:
        """A block in a layout whose rows can be reduced."""
        raise NotImplementedError


class Wgmma(Matrix):
    """Hopper: accumulators are registers; operands are in shared memory, the left one in registers too."""

    def __init__(self, stage_left: bool) -> None:
        self.key = f"mosaic_gpu wgmma{' staged' if stage_left else ''}"
        self.stage_left = stage_left
        """Whether left operands in registers go through shared memory (the interpreter takes no others)."""

    def accumulator(self, scratch: PlannedScratch) -> Any:
        """WGMMA registers, zero when they are made."""
        return wgmma_registers(scratch.shape, scratch.dtype)

    def mma(self, acc: Any, x: Any, y: Any, transpose_x: bool, transpose_y: bool) -> None:
        """``acc += x @ y``, finished when this returns."""
        _check_wgmma(acc.shape, x, transpose_x, transpose_y)

        def multiply(left: Any, right: Any) -> None:
            plgpu.wgmma(acc, _turned(left, transpose_x), _turned(right, transpose_y))
            plgpu.wgmma_wait(0)

        stage_left = self.stage_left or transpose_x or x.dtype not in _HALF
        _in_shared_memory(x, stage_left, lambda left: _in_shared_memory(y, True, lambda right: multiply(left, right)))

    def dot(self, x: Any, y: Any, transpose_x: bool, transpose_y: bool) -> Any:
        """``x @ y`` in a fresh accumulator."""

        def product(acc: Any) -> Any:
            self.mma(acc, x, y, transpose_x, transpose_y)
            return acc[...]

        shape = (x.shape[1 if transpose_x else 0], y.shape[0 if transpose_y else 1])
        return pl.run_scoped(product, wgmma_registers(shape, product_dtype(x.dtype)))

    def load_rows(self, ref: Any) -> Any:
        """In the layout of WGMMA's results where the shape has one."""
        rows, columns = ref.shape
        return plgpu.load(ref, layout=plgpu.Layout.WGMMA) if rows % _ROWS == 0 and columns % 8 == 0 else ref[...]


def _check_wgmma(shape: tuple[int, ...], x: Any, transpose_x: bool, transpose_y: bool) -> None:
    """What the instruction takes (PTX ISA, wgmma.mma_async); Triton takes more.

    Raises:
        Unsupported: another shape or layout.
    """
    rows, columns = shape
    if rows % _ROWS or columns % 8:
        raise Unsupported(
            f"WGMMA makes multiples of 64 rows and 8 columns: expected such a product, found {rows} x {columns}"
        )
    if x.dtype not in _HALF and (transpose_x or not transpose_y):
        raise Unsupported(
            f"WGMMA takes {jnp.dtype(x.dtype).name} only with both operands contiguous along the summed dim "
            "(`transpose_y=True` and no `transpose_x`): use f16 or bf16, or backend `triton`"
        )


def _turned(operand: Any, transposed: bool) -> Any:
    return operand.transpose((1, 0)) if transposed else operand


def _in_shared_memory(operand: Any, wanted: bool, use: Callable[[Any], Any]) -> Any:
    """``use`` of the operand, copied to shared memory first if it is wanted there and is a value."""
    if jaxapi.is_ref(operand) or not wanted:
        return use(operand)

    def staged(stage: Any) -> Any:
        stage[...] = operand
        plgpu.commit_smem()
        return use(stage)

    return pl.run_scoped(staged, plgpu.SMEM(operand.shape, operand.dtype))


class TmemAccumulator:
    """A `tp.ACC` in tensor memory with the barrier of its products, behind the part of a ref that kernels use."""

    def __init__(self, memory: Any, finished: Any) -> None:
        self.memory = memory
        self.finished = finished
        self.shape: tuple[int, ...] = memory.shape
        self.dtype = memory.dtype

    def __getitem__(self, index: Any) -> Any:
        """The whole accumulator as a value; every warp has read its part when this returns."""
        if index is not ...:
            raise Unsupported("a tp.ACC is read whole: expected `acc[...]`")
        found = plgpu.async_load_tmem(self.memory)
        plgpu.wait_load_tmem()
        plgpu.commit_smem()  # waits for the other warps, so that the next product may overwrite what they read
        return found


class Tcgen05(Matrix):
    """Blackwell: accumulators are tensor memory; both operands are in shared memory."""

    key = "mosaic_gpu tcgen05"

    def accumulator(self, scratch: PlannedScratch) -> Any:
        """Tensor memory and a barrier."""
        _check_tcgen05(scratch.shape)
        return [plgpu.TMEM(scratch.shape, scratch.dtype), plgpu.Barrier(orders_tensor_core=True)]

    def as_accumulator(self, made: Any) -> Any:
        """The two behind one object."""
        return TmemAccumulator(*made)

    def clear(self, acc: Any) -> None:
        """Tensor memory starts with garbage."""
        plgpu.async_store_tmem(acc.memory, jnp.zeros(acc.shape, acc.dtype))
        plgpu.commit_tmem()

    def mma(self, acc: Any, x: Any, y: Any, transpose_x: bool, transpose_y: bool) -> None:
        """``acc += x @ y``, finished when this returns."""
        self._multiply(acc, x, y, transpose_x, transpose_y, accumulate=True)

    def _multiply(
        self, acc: TmemAccumulator, x: Any, y: Any, transpose_x: bool, transpose_y: bool, accumulate: bool
    ) -> None:
        if x.dtype not in _HALF:
            raise Unsupported(f"backend `mosaic_gpu` multiplies f16 and bf16 on Blackwell, found {x.dtype}")

        def multiply(left: Any, right: Any) -> None:
            operands = _turned(left, transpose_x), _turned(right, transpose_y)
            plgpu.tcgen05_mma(acc.memory, *operands, acc.finished, accumulate=accumulate)
            plgpu.barrier_wait(acc.finished)

        _in_shared_memory(x, True, lambda left: _in_shared_memory(y, True, lambda right: multiply(left, right)))

    def dot(self, x: Any, y: Any, transpose_x: bool, transpose_y: bool) -> Any:
        """``x @ y`` through fresh tensor memory."""
        shape = (x.shape[1 if transpose_x else 0], y.shape[0 if transpose_y else 1])
        _check_tcgen05(shape)

        def product(memory: Any, finished: Any) -> Any:
            acc = TmemAccumulator(memory, finished)
            self._multiply(acc, x, y, transpose_x, transpose_y, accumulate=False)
            return acc[...]

        memory = plgpu.TMEM(shape, product_dtype(x.dtype))
        return pl.run_scoped(product, memory, plgpu.Barrier(orders_tensor_core=True))

    def load_rows(self, ref: Any) -> Any:
        """The layout is inferred from the use."""
        return ref[...]


def _check_tcgen05(shape: tuple[int, ...]) -> None:
    """What the instruction makes with one CTA (PTX ISA, tcgen05.mma).

    Raises:
        Unsupported: another shape.
    """
    rows, columns = shape
    if rows not in (64, 128) or columns % 8 or columns > 512:
        raise Unsupported(
            f"tcgen05 makes 64 or 128 rows and a multiple of 8 columns, at most 512: expected such a product, found "
            f"{rows} x {columns}"
        )


def matrix_unit(capability: tuple[int, int] | None, interpret: bool) -> Matrix:
    """The matrix unit of a GPU of this compute capability; Hopper's where none is known."""
    if capability is not None and capability >= (10, 0):
        return Tcgen05()
    return Wgmma(stage_left=interpret)
