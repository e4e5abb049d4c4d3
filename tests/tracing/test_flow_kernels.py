"""Kernels over their grid: the rule that is broken and no other; TPU interpret mode as the judge."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import re
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

import copy_kernels  # noqa: F401
import flow_kernels
from flow_kernels import ANYWHERE, F32, ONE, ROWS, STAYS, VMEM, Kernel, X
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import typedpallas as tp

ALL = flow_kernels.KERNELS
each = pytest.mark.parametrize("kernel", ALL, ids=lambda kernel: kernel.name)


def _said(report: tp.Report, verdict: str = "refuted") -> set[str]:
    return {item.rule for item in report.diagnostics if item.verdict == verdict}


@each
def test_the_broken_rule_is_named_and_no_other(kernel: Kernel) -> None:
    report = tp.check(kernel.run, *kernel.args, target="tpu-v5e")
    assert _said(report) == ({kernel.wrong} if kernel.wrong else set()), str(report)
    assert not _said(report, "open")
    for item in report.diagnostics:
        assert Path(item.file).name in ("flow_kernels.py", "copy_kernels.py") and item.help and item.witness


SHARED = "shared-semaphore"
GARBAGE = ("read-before-write", "result-never-stored")


@pytest.mark.parametrize(
    "kernel", [k for k in ALL if k.interpreted and (k.wrong in (None, *GARBAGE))], ids=lambda kernel: kernel.name
)
def test_tpu_interpret_mode_agrees_about_garbage(kernel: Kernel) -> None:
    """It fills fresh memory with NaN, or the largest whole number."""
    random = np.random.default_rng(0)
    operands = [
        jnp.asarray(random.integers(0, 2, a.shape) if a.dtype == jnp.int32 else random.random(a.shape), a.dtype)
        for a in kernel.args
    ]
    mode = pltpu.InterpretParams(uninitialized_memory="nan")
    results = jax.tree.leaves(kernel.run(*operands, interpret=mode))
    garbage = any(bool(jnp.any(jnp.isnan(result) | (jnp.abs(result) > 1e6))) for result in results)
    assert garbage == (kernel.wrong is not None)


@pytest.mark.parametrize(
    "kernel",
    [k for k in ALL if k.interpreted and re.match("one_semaphore|prefetched", k.name) and k.wrong in (None, SHARED)],
    ids=lambda kernel: kernel.name,
)
def test_copies_that_end_in_another_order_tell_shared_semaphores(kernel: Kernel) -> None:
    """TPU interpret mode can let a copy end as late as the waits allow, the last one started first."""
    x = jnp.asarray(np.random.default_rng(0).random((64, 128)), F32)
    soon, late = (
        kernel.run(x, interpret=pltpu.InterpretParams(dma_execution_mode=mode, uninitialized_memory="zero"))
        for mode in ("eager", "on_wait")
    )
    assert bool(jnp.array_equal(soon, late)) == (kernel.wrong is None)


def _accumulated(**params: Any) -> Any:
    def body(x, o, acc):
        @pl.when(pl.program_id(1) == 0)
        def _():
            acc[...] = jnp.zeros_like(acc)

        acc[...] += x[...]

        @pl.when(pl.program_id(1) == 3)
        def _():
            o[...] = acc[...]

    def run(x):
        return pl.pallas_call(
            body,
            out_shape=jax.ShapeDtypeStruct((16, 128), F32),
            grid=(2, 4),
            in_specs=[pl.BlockSpec((8, 128), lambda i, k: (4 * i + k, 0))],
            out_specs=pl.BlockSpec((8, 128), lambda i, k: (i, 0)),
            scratch_shapes=[VMEM],
            compiler_params=pltpu.CompilerParams(**params),
        )(x)

    return run


@pytest.mark.parametrize("target", ["tpu-v5e", "tpu-v5p"])
@pytest.mark.parametrize("semantics", [("parallel", "arbitrary"), ("parallel", "parallel"), None])
def test_cores_that_share_a_parallel_axis(target: str, semantics: tuple[str, str] | None) -> None:
    """Only v5p has two cores in one device; each needs its own start."""
    report = tp.check(_accumulated(dimension_semantics=semantics), X, target=target)
    wrong = target == "tpu-v5p" and semantics == ("parallel", "parallel")
    assert _said(report) == ({"read-before-write"} if wrong else set()), str(report)
    if wrong:
        (item,) = report.diagnostics
        assert "grid axis 1" in item.help and "another core" in item.witness


def _kept(body: Any) -> Any:
    return pl.pallas_call(body, out_shape=ONE, grid=(8,), in_specs=[ROWS], out_specs=STAYS)


def half(x, o):
    o[0:4, :] = x[0:4, :]


def test_garbage_that_the_caller_may_cut_off_is_open() -> None:
    report = tp.check(lambda x: _kept(half)(x)[0:4], X, target="tpu-v5e")
    assert _said(report, "open") == {"result-never-stored"} and report.ok
    assert not tp.check(lambda x: (_kept(half)(x), x)[1] * 1.0, X, target="tpu-v5e").diagnostics


def test_garbage_all_over_is_refuted_wherever_it_goes() -> None:
    def added(x, o):
        o[...] += x[...]

    report = tp.check(lambda x: _kept(added)(x)[0:4], X, target="tpu-v5e")
    assert _said(report) == {"read-before-write"}


def test_programs_of_a_gpu_start_anew() -> None:
    def added(x, o):
        o[...] += x[...]

    def run(x, **params):
        return pl.pallas_call(added, out_shape=X, grid=(8,), in_specs=[ROWS], out_specs=ROWS, **params)(x)

    assert _said(tp.check(run, X, target="h100")) == {"read-before-write"}
    assert not tp.check(lambda x: run(x, input_output_aliases={0: 0}), X, target="h100").diagnostics


def test_copies_to_another_device_are_two() -> None:
    """What is sent and what is received, each with its own semaphore."""

    def body(x, o, sent, received):
        copy = pltpu.make_async_remote_copy(x, o, sent, received, device_id=0, device_id_type=pl.DeviceIdType.LOGICAL)
        copy.start()

    def run(x):
        return pl.pallas_call(
            body,
            out_shape=X,
            in_specs=[ANYWHERE],
            out_specs=ANYWHERE,
            scratch_shapes=[pltpu.SemaphoreType.DMA, pltpu.SemaphoreType.DMA],
        )(x)

    said = tp.check(run, X, target="tpu-v5e").diagnostics
    assert [item.rule for item in said] == ["copy-not-waited"] * 2
    assert "`sent`" in said[0].message and "`received`" in said[1].message


def test_a_grid_that_is_known_only_when_it_runs_is_not_judged() -> None:
    def run(n, x):
        return pl.pallas_call(half, out_shape=ONE, grid=(n,), in_specs=[ROWS], out_specs=STAYS)(x)

    assert tp.check(run, jax.ShapeDtypeStruct((), jnp.int32), X, target="tpu-v5e").ok


COPYING = ("read_too_early", "source_overwritten", "double_buffered", "the_other_half_may_be_used")


@pytest.mark.parametrize("name", COPYING)
def test_tpu_interpret_mode_agrees_about_races(name: str) -> None:
    """JAX 0.12 raises at the first race, 0.11 keeps it."""
    from jax._src.pallas.mosaic.interpret import interpret_pallas_call as interpreter

    (kernel,) = [kernel for kernel in ALL if kernel.name == name]
    operands = [jnp.ones(a.shape, a.dtype) for a in kernel.args]
    try:
        jax.block_until_ready(kernel.run(*operands, interpret=pltpu.InterpretParams(detect_races=True)))
        assert interpreter.races is not None
        found = interpreter.races.races_found
    except jax.errors.JaxRuntimeError as error:
        assert "RACE DETECTED" in str(error)
        found = True
    finally:
        pltpu.reset_tpu_interpret_mode_state()
    assert found == (kernel.wrong == "read-before-wait")
