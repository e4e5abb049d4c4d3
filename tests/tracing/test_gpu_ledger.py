"""Shared and tensor memory of Mosaic GPU kernels: what the ledger adds up is what the lowered launch asks for."""

import random
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from gpu_asked import Case, Product, flagged, refused, shared_bytes
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

from typedpallas import chips
from typedpallas.compilers.ambient import target_context
from typedpallas.events import MemoryUse
from typedpallas.kernels.gpu import attention
from typedpallas.kernels.gpu.attention_tuning import AttentionTuning
from typedpallas.tracing import jaxapi
from typedpallas.tracing.ledgers import shared as ledger_shared
from typedpallas.tracing.walk import kernels

S = jax.ShapeDtypeStruct
f32 = jnp.float32


def _use(case: Case, target: str) -> MemoryUse:
    run, args = case
    with target_context(target):
        [kernel] = kernels(jaxapi.trace(run, args), "triton")
    chip = chips.get(target)
    assert isinstance(chip, chips.GpuTarget)
    found = ledger_shared.use(kernel, chip)
    assert found is not None
    return found


def _scopes(seed: int) -> Case:
    """Scopes in scopes and beside each other, in branches and loops, with barriers, sums and a pipeline."""
    rng = random.Random(f"scopes-{seed}")

    def body(depth: int, o: Any) -> None:
        rows = rng.choice((1, 2, 3, 8, 16))
        count, arrivals = rng.choice((0, 1, 3)), rng.choice((1, 2))
        kinds = [plgpu.SMEM((rows, 128), rng.choice((f32, jnp.float16, jnp.int8)))]
        kinds += [plgpu.Barrier(num_arrivals=arrivals, num_barriers=count)] if count else []

        def inside(buffer: Any, *_: Any) -> None:
            if rng.random() < 0.4:
                o[...] = o[...] + jnp.sum(o[...])
            for _ in range(rng.choice((0, 1, 2)) if depth < 3 else 0):
                kind = rng.choice(("plain", "loop", "branch"))
                if kind == "plain":
                    body(depth + 1, o)
                elif kind == "loop":
                    pl.loop(0, 3)(lambda _: body(depth + 1, o))
                else:
                    lax.cond(lax.axis_index("g") == 0, lambda: body(depth + 1, o), lambda: None)

        pl.run_scoped(inside, *kinds)

    def kernel(x: Any, o: Any) -> None:
        o[...] = x[...]
        body(0, o)
        if rng.random() < 0.5:
            plgpu.emit_pipeline(
                lambda _, block: None,
                grid=(rng.choice((1, 4)),),
                in_specs=[plgpu.BlockSpec((8, 128), lambda i: (i, 0))],
                max_concurrent_steps=rng.choice((1, 2, 8)),
            )(x)

    run = plgpu.kernel(kernel, out_type=S((32, 128), f32), grid=(2,), grid_names=("g",))
    return run, (S((32, 128), f32),)


@pytest.mark.parametrize("seed", range(12))
def test_generated_scopes_are_added_up_to_the_byte(seed: int) -> None:
    use = _use(_scopes(seed), "h100")
    assert use.low == use.high == shared_bytes(_scopes(seed), "h100")


@pytest.mark.parametrize("blackwell", [False, True])
def test_products_are_too(blackwell: bool) -> None:
    target, case = ("b200", Product(m=128).case(True)) if blackwell else ("h100", Product().case())
    use = _use(case, target)
    assert use.low == use.high == shared_bytes(case, target)


def _attention(stages: int) -> Case:
    tuning = AttentionTuning(groups=1, stages=stages)
    q, turns = S((2, 1024, 4, 128), jnp.bfloat16), None
    run, turns = attention.launch(q, q, causal=False, scale=1.0, tuning=tuning)
    arrays = (q, q, q, S(turns.shape, turns.dtype))
    return run.call(arrays), arrays


def test_the_attention_that_is_120_bytes_too_large_is_refused_by_its_buffers_names() -> None:
    use = _use(_attention(3), "h200")
    assert (use.low, use.high, use.limit) == (232568, 232568, 232448)
    assert {"k_slots", "v_slots", "q_slots", "out_slots", "lse_slots", "barriers", "reductions"} == {
        item.name for item in use.items
    }
    assert flagged(_attention(3), "h200") == {"shared-memory-overflow"}
    assert "smem_bytes=232568" in refused(_attention(3), "h200")
    assert flagged(_attention(2), "h200") == set()


def test_a_chip_with_less_shared_memory_has_its_own_limit() -> None:
    """Mosaic GPU takes what an H100 has for the limit of every chip: only the launch would fail."""

    def kernel(x: Any, o: Any, buffer: Any) -> None:
        buffer[...] = x[...]
        o[...] = buffer[...]

    array = S((400, 128), f32)
    run = plgpu.kernel(kernel, out_type=array, scratch_types=[plgpu.SMEM((400, 128), f32)])
    assert flagged((run, (array,)), "h100") == set()
    assert flagged((run, (array,)), "a100") == {"shared-memory-overflow"}
