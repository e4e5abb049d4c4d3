"""Collectives of a kernel's own over a ring of TPUs: each device sends to its neighbours while it works.

Every part of an array has a place of its own on every device, and every step a semaphore of its own: nothing is
overwritten, and no neighbour can run too far ahead. Before the first copy neighbours wait for each other, for until
then one may still be at what came before the kernel.
"""

import functools
from typing import Any
from typing import Literal as L

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import typedpallas as tp
from typedpallas import Dim, In, Out, Scratch, tpu
from typedpallas.kernels import costs
from typedpallas.kernels.tpu import blocks
from typedpallas.tpu import DMA, HBM, VMEM


def all_gather_kernel[T: tp.Number, N: Dim, S: Dim, H: Dim, C: Dim](
    x: In[HBM, T, L[2], H, C],
    out: Out[HBM, T, N, L[2], H, C],
    own: Scratch[DMA],
    sent: Scratch[DMA, L[2], S],
    came: Scratch[DMA, L[2], S],
    *,
    axis: str,
) -> None:
    """Half of each part goes around one way, half the other way, a neighbour further each step."""
    me, count = lax.axis_index(axis), out.shape[0]
    with tpu.copy(x, out.at[me], own):
        meet(axis, count)
    for step in range(count - 1):
        copies = []
        for way, (here, there) in enumerate(_ways(me, step, count)):
            place = out.at[here, way]
            copies.append(
                tpu.make_async_remote_copy(place, place, sent.at[way, step], came.at[way, step], {axis: there})
            )
        for copy in copies:
            copy.start()
        for copy in copies:
            copy.wait()


def all_gather_matmul_kernel[T: tp.Float, N: Dim, S: Dim, H: Dim, K: Dim, C: Dim](
    x: In[VMEM, T, L[2], H, K],
    w: In[VMEM, T, K, C],
    out: Out[VMEM, T, N, L[2], H, C],
    parts: Scratch[VMEM, T, N, L[2], H, K],
    sent: Scratch[DMA, L[2], S],
    came: Scratch[DMA, L[2], S],
    *,
    axis: str,
) -> None:
    """As `all_gather_kernel`; what has come is multiplied while it goes on to the next device."""
    me, count = lax.axis_index(axis), out.shape[0]
    meet(axis, count)
    parts[me] = x[...]
    for step in range(count):
        ways, copies = _ways(me, step, count), []
        for way, (here, there) in enumerate(ways if step < count - 1 else ()):
            place = parts.at[here, way]
            copies.append(
                tpu.make_async_remote_copy(place, place, sent.at[way, step], came.at[way, step], {axis: there})
            )
        for copy in copies:
            copy.start()
        for way, (here, _) in enumerate(ways):
            product = jnp.dot(parts[here, way], w[...], preferred_element_type=jnp.float32)
            out[here, way] = product.astype(out.dtype)
        for copy in copies:
            copy.wait()


def _ways(me: Any, step: int, count: int) -> list[tuple[Any, Any]]:
    """For each way around: whose part is sent in this step, and to whom."""
    right, left = lax.rem(me + 1, count), lax.rem(me + (count - 1), count)
    return [(lax.rem(me + (count - step), count), right), (lax.rem(me + step, count), left)]


def meet(axis: str, count: int) -> None:
    """Wait until both neighbours have come to this point."""
    me, barrier = lax.axis_index(axis), pltpu.get_barrier_semaphore()
    for neighbour in (lax.rem(me + 1, count), lax.rem(me + (count - 1), count)):
        pl.semaphore_signal(barrier, 1, device_id={axis: neighbour})
    pl.semaphore_wait(barrier, 2)


def all_gather(x: jax.Array, axis: str, *, collective: int = 0, interpret: Any = None) -> jax.Array:
    """The parts of all devices along a mesh axis, one after the other. Call it within `jax.shard_map`.

    Args:
        x: any number type, shape ``(rows, columns)``, an even number of rows: this device's part.
        axis: the mesh axis; its devices are a ring.
        collective: a number of its own for each kernel that may run at the same time.
        interpret: as `tp.pallas_call` takes it; unless given, what is needed where no TPU is.

    Returns:
        Shape ``(devices * rows, columns)``, the same on every device.

    Raises:
        LaunchError: ``x`` is no matrix of an even number of rows.
    """
    _check("all_gather", x)
    count, (rows, columns) = lax.axis_size(axis), x.shape
    if count == 1:
        return x
    out = jax.ShapeDtypeStruct((count, 2, rows // 2, columns), x.dtype)
    anywhere = pl.BlockSpec(memory_space=pltpu.HBM)
    run = tp.pallas_call(
        functools.partial(all_gather_kernel, axis=axis),
        out,
        in_specs=[anywhere],
        out_specs=anywhere,
        scratch_shapes=[pltpu.SemaphoreType.DMA, *_semaphores(count)],
        cost_estimate=costs.estimate(0, (x, out), sent=_sent(x, count)),
        compiler_params=pltpu.CompilerParams(collective_id=collective),
        interpret=blocks.interpreter(interpret),
    )
    result: jax.Array = run(x.reshape(2, rows // 2, columns))
    return result.reshape(count * rows, columns)


def all_gather_matmul(
    x: jax.Array, w: jax.Array, axis: str, *, collective: int = 0, interpret: Any = None
) -> jax.Array:
    """``all_gather(x, axis) @ w``, multiplied while it is gathered. Call it within `jax.shard_map`.

    Args:
        x: float32 or bfloat16, shape ``(m, k)``, ``m`` a multiple of 32: this device's rows.
        w: the same type, shape ``(k, n)``: this device's columns. All operands and results lie in VMEM together.
        axis: the mesh axis; its devices are a ring.
        collective: a number of its own for each kernel that may run at the same time.
        interpret: as `tp.pallas_call` takes it; unless given, what is needed where no TPU is.

    Returns:
        Shape ``(devices * m, n)`` of the same type, summed in float32.

    Raises:
        LaunchError: shapes or types do not fit each other.
    """
    _check("all_gather_matmul", x)
    if w.ndim != 2 or w.shape[0] != x.shape[1] or w.dtype != x.dtype or x.dtype not in (jnp.float32, jnp.bfloat16):
        raise tp.LaunchError(
            "all_gather_matmul: expected float32 or bfloat16, shapes (m, k) and (k, n), found "
            f"{x.dtype}, {x.shape} and {w.dtype}, {w.shape}"
        )
    count, (rows, depth), columns = lax.axis_size(axis), x.shape, w.shape[1]
    if count == 1:
        return jnp.dot(x, w, preferred_element_type=jnp.float32).astype(x.dtype)
    out = jax.ShapeDtypeStruct((count, 2, rows // 2, columns), x.dtype)
    whole = pl.BlockSpec(memory_space=pltpu.VMEM)
    run = tp.pallas_call(
        functools.partial(all_gather_matmul_kernel, axis=axis),
        out,
        in_specs=[whole, whole],
        out_specs=whole,
        scratch_shapes=[pltpu.VMEM((count, 2, rows // 2, depth), x.dtype), *_semaphores(count)],
        cost_estimate=costs.estimate(2 * count * x.size * columns, (x, w, out), sent=_sent(x, count)),
        compiler_params=pltpu.CompilerParams(collective_id=collective),
        interpret=blocks.interpreter(interpret),
    )
    result: jax.Array = run(x.reshape(2, rows // 2, depth), w)
    return result.reshape(count * rows, columns)


def _semaphores(count: int) -> list[Any]:
    """Of departures and arrivals, one for each way around and step."""
    return [pltpu.SemaphoreType.DMA((2, count - 1))] * 2


def _sent(x: jax.Array, count: int) -> int:
    return (count - 1) * x.size * x.dtype.itemsize


def _check(name: str, x: jax.Array) -> None:
    if x.ndim != 2 or x.shape[0] % 2:
        raise tp.LaunchError(f"{name}: expected a matrix with an even number of rows, found shape {x.shape}")
