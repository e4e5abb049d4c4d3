"""Mosaic GPU kernels of a few lines, and what the compiler says of them."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

import typedpallas as tp
from typedpallas import compilers

S = jax.ShapeDtypeStruct
type Case = tuple[Callable[..., Any], tuple[Any, ...]]
type Layout = tuple[tuple[int, ...] | None, int | None] | None


def transforms(layout: Layout) -> tuple[Any, ...]:
    """A tile and a swizzle as Pallas takes them."""
    tile, swizzle = layout or (None, None)
    made: tuple[Any, ...] = (plgpu.TilingTransform(tile),) if tile else ()
    return (*made, plgpu.SwizzleTransform(swizzle)) if swizzle else made


@dataclass(frozen=True)
class Product:
    """One product of whole arrays. ``turned``: which operands lie the other way round."""

    m: int = 64
    n: int = 64
    k: int = 64
    dtype: Any = jnp.float16
    sums: Any = jnp.float32
    turned: str = ""
    a: Layout = None
    b: Layout = None

    def case(self, blackwell: bool = False) -> Case:
        """The kernel and its operands' types."""
        x = S((self.k, self.m) if "a" in self.turned else (self.m, self.k), self.dtype)
        y = S((self.n, self.k) if "b" in self.turned else (self.k, self.n), self.dtype)
        scratch: dict[str, Any] = {
            "xs": plgpu.SMEM(x.shape, x.dtype, transforms=transforms(self.a)),
            "ys": plgpu.SMEM(y.shape, y.dtype, transforms=transforms(self.b)),
            "os": plgpu.SMEM((self.m, self.n), self.sums),
            "arrived": plgpu.Barrier(num_arrivals=2),
        }
        if blackwell:
            packed = {} if jnp.dtype(self.sums).itemsize == 4 else {"packed": False}
            scratch["acc"] = plgpu.TMEM((self.m, self.n), self.sums, **packed)
            scratch["done"] = plgpu.Barrier(orders_tensor_core=True)
        run = plgpu.kernel(
            self._blackwell if blackwell else self._hopper,
            out_type=S((self.m, self.n), self.sums),
            scratch_types=scratch,
        )
        return run, (x, y)

    def _operands(self, xs: Any, ys: Any) -> tuple[Any, Any]:
        a = xs.transpose((1, 0)) if "a" in self.turned else xs
        return a, ys.transpose((1, 0)) if "b" in self.turned else ys

    def _hopper(self, x: Any, y: Any, o: Any, *, xs: Any, ys: Any, os: Any, arrived: Any) -> None:
        _fetch((x, xs), (y, ys), arrived)

        def multiply(acc: Any) -> Any:
            plgpu.wgmma(acc, *self._operands(xs, ys))
            return acc[...]

        os[...] = pl.run_scoped(multiply, plgpu.ACC((self.m, self.n), self.sums))
        _put(os, o)

    def _blackwell(
        self, x: Any, y: Any, o: Any, *, xs: Any, ys: Any, os: Any, arrived: Any, acc: Any, done: Any
    ) -> None:
        _fetch((x, xs), (y, ys), arrived)
        plgpu.tcgen05_mma(acc, *self._operands(xs, ys), done, accumulate=False)
        plgpu.barrier_wait(done)
        os[...] = plgpu.async_load_tmem(acc)
        _put(os, o)


@dataclass(frozen=True)
class Copy:
    """A part of an array, to shared memory and back. ``box``: of the last dims, the others are indexed."""

    array: tuple[int, ...]
    box: tuple[int, ...] = ()
    dtype: Any = jnp.float32
    layout: Layout = None

    def case(self) -> Case:
        """The kernel and its operands' types."""
        box = self.box or self.array

        def kernel(x: Any, o: Any, buffer: Any, arrived: Any) -> None:
            outer = (0,) * (len(self.array) - len(box))
            part = (*outer, *(pl.ds(0, size) for size in box))
            plgpu.copy_gmem_to_smem(x.at[part], buffer, arrived)
            plgpu.barrier_wait(arrived)
            plgpu.commit_smem()
            plgpu.copy_smem_to_gmem(buffer, o.at[part])
            plgpu.wait_smem_to_gmem(0)

        array = S(self.array, self.dtype)
        scratch = [plgpu.SMEM(box, self.dtype, transforms=transforms(self.layout)), plgpu.Barrier()]
        return plgpu.kernel(kernel, out_type=array, scratch_types=scratch), (array,)


def _fetch(first: tuple[Any, Any], second: tuple[Any, Any], arrived: Any) -> None:
    for source, buffer in (first, second):
        plgpu.copy_gmem_to_smem(source, buffer, arrived)
    plgpu.barrier_wait(arrived)


def _put(buffer: Any, array: Any) -> None:
    plgpu.commit_smem()
    plgpu.copy_smem_to_gmem(buffer, array)
    plgpu.wait_smem_to_gmem(0)


def refused(case: Case, target: str) -> str:
    """The compiler's words; empty where it takes the kernel."""
    run, args = case
    try:
        tp.compile(run, *args, target=target)
    except tp.CompileError as error:
        if error.kind == "unavailable":
            pytest.skip(str(error))
        return str(error)
    except (ValueError, AssertionError) as error:
        return str(error) or "an assertion"
    return ""


def flagged(case: Case, target: str | None) -> set[str]:
    """The rules that refuse."""
    run, args = case
    found = tp.check(run, *args, target=target).diagnostics
    return {item.rule for item in found if item.verdict == "refuted"}


def shared_bytes(case: Case, target: str) -> int:
    """The shared memory that the lowered launch asks for."""
    run, args = case
    [text] = [kernel.text for kernel in compilers.lower_for(run, *args, target=target).kernels]
    launched = re.search(r"dynamic_shared_memory_size %(\w+)", text)
    assert launched is not None
    size = re.search(rf"%{launched[1]} = arith\.constant (\d+) : i32", text)
    assert size is not None
    return int(size[1])
