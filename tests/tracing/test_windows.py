"""The blocks of traced kernels: what the trace sees of them, and the words that the rules find."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import typedpallas as tp
from typedpallas import rules
from typedpallas.dims import Facts, Size
from typedpallas.events import Context, Window
from typedpallas.rules import _blocks


def _copy(array: tuple[int, ...], block: tuple[int | None, ...], dtype: str = "float32", steps: int = 2):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    def run(x):
        spec = pl.BlockSpec(block, lambda i: (i, *(0,) * (len(block) - 1)))
        shape = jax.ShapeDtypeStruct(array, dtype)
        return pl.pallas_call(kernel, out_shape=shape, grid=(steps,), in_specs=[spec], out_specs=spec)(x)

    return run, jax.ShapeDtypeStruct(array, jnp.dtype(dtype))


def _said(report: tp.Report) -> set[tuple[str, str]]:
    return {(item.rule, item.verdict) for item in report.diagnostics}


def test_a_squeezed_last_dim_counts_as_one() -> None:
    run, x = _copy((4, 8, 128), (1, 8, None), steps=4)
    (first, *_) = tp.check(run, x, target="tpu-v5e").diagnostics
    assert first.rule == "unaligned-lane" and first.found == "1 (squeezed)" and "squeeze an axis before" in first.help


@pytest.mark.parametrize("block", [(8, 128), (16, 100), (24, 256), (8, 1024)])
def test_whole_dims_multiples_and_larger_blocks_pass(block: tuple[int, int]) -> None:
    run, x = _copy((48, 100), block)
    assert not {rule for rule, _ in _said(tp.check(run, x, target="tpu-v6e"))} & {
        "unaligned-lane",
        "unaligned-sublane",
    }


def test_narrow_elements_are_left_to_the_compiler() -> None:
    run, x = _copy((64, 128), (8, 128), "int8", steps=8)
    assert _said(tp.check(run, x, target="tpu-v5e")) == {("unaligned-sublane", "open")}
    run, x = _copy((200, 128), (8, 128), "int8", steps=25)
    assert tp.check(run, x, target="tpu-v5e").diagnostics == ()


def test_tiles_are_a_matter_of_tpus() -> None:
    run, x = _copy((64, 64), (4, 16), steps=16)
    assert not {rule for rule, _ in _said(tp.check(run, x, target="h100"))} & {"unaligned-lane", "unaligned-sublane"}
    assert not {rule for rule, _ in _said(tp.check(run, x))} & {"unaligned-lane", "unaligned-sublane"}


@pytest.mark.parametrize(
    ("dtype", "block", "verdict"),
    [
        *[
            ("float32", 128, "fits"),
            ("bfloat16", 128, "refuted"),
            ("bfloat16", 256, "fits"),
            ("int8", 256, "refuted"),
        ],
        *[("int8", 512, "fits"), ("float32", 1000, "refuted"), ("float32", 3072, "fits"), ("bool", 128, "fits")],
    ],
)
def test_rank_1(dtype: str, block: int, verdict: str) -> None:
    run, x = _copy((6144,), (block,), dtype, steps=-(-6144 // block))
    said = _said(tp.check(run, x, target="tpu-v5p"))
    assert (("rank1-tile", "refuted") in said) == (verdict == "refuted"), said


def test_symbolic_blocks_are_proved_or_open() -> None:
    facts = Facts(multiples={"BN": 128, "BM": 8})
    proved = Window(
        name="x", role="in", space=None, dtype="float32", block=(Size.of("BM"), Size.of("BN")), array=(None, None)
    )
    assert list(rules.judge(proved, Context(backend="mosaic_tpu", facts=facts))) == []
    unknown = Window(
        name="x", role="in", space=None, dtype="float32", block=(Size.of("BM"), Size.of("BK")), array=(None, None)
    )
    (finding,) = rules.judge(unknown, Context(backend="mosaic_tpu", facts=facts))
    assert (finding.rule, finding.verdict) == ("unaligned-lane", "open")


def test_help_names_sizes_that_are_legal() -> None:
    assert _blocks.legal_sizes(100, 1000, 8) == [40, 200]
    assert _blocks.legal_sizes(100, 1000, 128) == [128]
    run, x = _copy((1000, 512), (100, 512), "bfloat16", steps=10)
    helps = {item.help for item in tp.check(run, x, target="tpu-v5e").diagnostics}
    assert helps == {"use 40 or 200 or 1000 (the whole axis)"}


def test_triton_stores_past_the_array() -> None:
    """On an H200 the first damages other arrays; the second ends within the rest of the allocation."""
    run, x = _copy((100, 256), (64, 256))
    (finding,) = [item for item in tp.check(run, x, target="h100").diagnostics if item.rule == "ragged-block"]
    assert finding.verdict == "refuted" and "28672 bytes past the array" in finding.witness
    run, x = _copy((126, 16), (32, 16), steps=4)
    assert ("ragged-block", "open") in _said(tp.check(run, x, target="h100"))
    run, x = _copy((100, 256), (64, 256))
    assert tp.check(run, x, target="tpu-v5e").ok


def test_a_masked_store_is_no_overrun() -> None:
    from jax.experimental.pallas import triton as plt

    def kernel(x_ref, o_ref):
        rows = pl.program_id(0) * 64 + jnp.arange(64)
        plt.store(o_ref, x_ref[...], mask=rows < 100)

    def run(x):
        spec = pl.BlockSpec((64,), lambda i: (i,))
        return pl.pallas_call(kernel, out_shape=x, grid=(2,), in_specs=[spec], out_specs=spec)(x)

    x = jax.ShapeDtypeStruct((100,), jnp.float32)
    assert "ragged-block" not in {rule for rule, _ in _said(tp.check(run, x, target="h100"))}


def _windowed(
    spec: pl.BlockSpec, grid: tuple[int, ...]
) -> tuple[Callable[[jax.Array], jax.Array], jax.ShapeDtypeStruct]:
    def kernel(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[0:8] * 2.0

    x = jax.ShapeDtypeStruct((64, 128), jnp.float32)
    whole = pl.BlockSpec((8, 128), lambda i: (i, 0))
    return pl.pallas_call(kernel, out_shape=x, grid=grid, in_specs=[spec], out_specs=whole), x


@pytest.mark.parametrize(
    ("spec", "refused"),
    [
        (pl.BlockSpec((8, 128), lambda i: (i, 0), pipeline_mode=pl.Buffered(1)), False),
        (pl.BlockSpec((8, 128), lambda i: (i, 0), pipeline_mode=pl.Buffered(2)), False),
        (pl.BlockSpec((8, 128), lambda i: (i, 0), pipeline_mode=pl.Buffered(4)), True),
        (pl.BlockSpec((64, 128), lambda i: (0, 0), pipeline_mode=pl.Buffered(4)), False),
        (pl.BlockSpec((pl.Element(8), pl.Element(128)), lambda i: (i * 8, 0)), False),
        (pl.BlockSpec((pl.Element(8), 128), lambda i: (i * 8, 0)), True),
        (pl.BlockSpec((pl.BoundedSlice(8), 128), lambda i: (pl.ds(i * 8, 8), 0)), True),
    ],
)
def test_what_only_a_pipeline_inside_of_the_kernel_can_bring(spec: pl.BlockSpec, refused: bool) -> None:
    run, x = _windowed(spec, (8,))
    said = _said(tp.check(run, x, target="tpu-v5e"))
    assert (("unsupported-window", "refuted") in said) == refused, said


def test_a_pipeline_inside_of_the_kernel_takes_many_buffers() -> None:
    many = pl.BlockSpec((8, 128), lambda i: (i, 0), pipeline_mode=pl.Buffered(3))
    plain = pl.BlockSpec((8, 128), lambda i: (i, 0))

    def kernel(x_ref: Any, o_ref: Any) -> None:
        def step(block: Any, out: Any) -> None:
            out[...] = block[...] * 2.0

        pltpu.emit_pipeline(step, grid=(8,), in_specs=[many], out_specs=[plain])(x_ref, o_ref)

    x = jax.ShapeDtypeStruct((64, 128), jnp.float32)
    somewhere = pl.BlockSpec(memory_space=pl.ANY)
    run = pl.pallas_call(kernel, out_shape=x, in_specs=[somewhere], out_specs=somewhere)
    assert tp.check(run, x, target="tpu-v5e").ok
