"""Semaphores used as what they are not: one rule, at the user's line."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import typedpallas as tp

X = jax.ShapeDtypeStruct((8, 128), jnp.float32)
SEMAPHORE = pltpu.SemaphoreType
BUFFER = pltpu.VMEM((8, 128), jnp.float32)


def _waited(x, o, semaphore, stage):
    copy = pltpu.make_async_copy(x, stage, semaphore)
    copy.start()
    copy.wait()


def _whole(x, o, semaphore, stage):
    o[...] = x[...] + semaphore[...]


def _tested(x, o, semaphore, stage):
    @pl.when(semaphore[...] > 0)
    def _():
        o[...] = x[...]


def _set(x, o, semaphore, stage):
    semaphore[0] = 1


def _signalled(x, o, semaphore, stage):
    pl.semaphore_signal(semaphore, 1)


def _awaited(x, o, semaphore, stage):
    pl.semaphore_wait(semaphore, 1)


def _counted(x, o, semaphore, stage):
    o[...] = x[...] + pl.semaphore_read(semaphore).astype(jnp.float32)


def _moved(x, o, semaphore, stage):
    pltpu.sync_copy(semaphore, stage)


def _run(body: Callable[..., None], kind: Any) -> Callable[..., Any]:
    def kernel(x, o, semaphore, stage):
        body(x, o, semaphore, stage)

    return lambda x: pl.pallas_call(kernel, out_shape=X, scratch_shapes=[kind, BUFFER])(x)


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        (_waited, SEMAPHORE.REGULAR, "expected a DMA semaphore for a copy, found a regular semaphore"),
        (_waited, SEMAPHORE.DMA((2,)), "expected one semaphore"),
        (_waited, BUFFER, "expected one semaphore"),
        (_whole, SEMAPHORE.REGULAR, "arithmetic on a load from it"),
        (_tested, SEMAPHORE.DMA, "found a DMA semaphore"),
        (_set, SEMAPHORE.REGULAR((2,)), "`semaphore` is a regular semaphore: expected a buffer for a store to it"),
        (_signalled, SEMAPHORE.DMA, "`semaphore` is a DMA semaphore: expected a regular or barrier semaphore"),
        (_signalled, SEMAPHORE.REGULAR((2,)), "`semaphore` is an array of shape (2,)"),
        (_awaited, SEMAPHORE.DMA, "for `pl.semaphore_wait`, found a DMA semaphore"),
        (_counted, SEMAPHORE.DMA((2,)), "`semaphore` is an array of shape (2,): expected one semaphore"),
        (_moved, SEMAPHORE.DMA, "`semaphore` is a DMA semaphore: expected a buffer for a copy from it"),
    ],
)
def test_a_semaphore_is_no_data(body: Callable[..., None], kind: Any, words: str) -> None:
    found = tp.check(_run(body, kind), X, target="tpu-v5e").diagnostics
    misused = [item for item in found if item.rule == "semaphore-as-data"]
    assert len(misused) == 1 and words in misused[0].message, found
    code = body.__code__
    assert Path(misused[0].file).name == Path(__file__).name
    assert code.co_firstlineno < misused[0].line <= code.co_firstlineno + 4


@pytest.mark.parametrize("kind", [SEMAPHORE.DMA, SEMAPHORE.DMA((2,)), SEMAPHORE.REGULAR, SEMAPHORE.REGULAR((2,))])
def test_a_count_may_be_read(kind: Any) -> None:
    def body(x, o, semaphore, stage):
        o[...] = x[...] + pl.semaphore_read(semaphore.at[0] if semaphore.shape else semaphore).astype(jnp.float32)

    assert not tp.check(_run(body, kind), X, target="tpu-v5e").diagnostics
