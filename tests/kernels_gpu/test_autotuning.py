"""`tp.autotune`: what it drops no compiler takes, what it finds is kept, and reasons are given."""

import functools
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import typedpallas as tp
from typedpallas import compilers
from typedpallas.autotuning import prune
from typedpallas.kernels.gpu.attention import attention
from typedpallas.kernels.gpu.attention_tuning import AttentionTuning
from typedpallas.launching.checks import left_to_the_compiler

MATMUL = __import__("typedpallas.kernels.matmul", fromlist=["launch"]).launch


@pytest.fixture(autouse=True, scope="module")
def no_process_left() -> Iterator[None]:
    yield
    compilers.shutdown()


def test_the_best_is_kept(tmp_path: Path) -> None:
    x, y = (jnp.ones(shape, jnp.float32) for shape in ((64, 128), (128, 128)))
    file = tmp_path / "kept" / "answers.json"
    tune = functools.partial(tp.autotune, MATMUL, x, y, rounds=1, file=file, BK=[128], BN=[128])
    first = tune(BM=[7, 16, 32])
    assert [configuration["BM"] for configuration, _ in first.pruned] == [7]
    assert {configuration["BM"] for configuration, _ in first.seconds} == {16, 32}
    assert not first.failed and not first.kept
    np.testing.assert_allclose(first(x, y), np.full((64, 128), 128.0))
    second = tune(BM=[7, 16, 32])
    assert second.kept and second.best == first.best
    assert not tune(BM=[16, 32]).kept
    assert not tp.autotune(MATMUL, x[:32], y, rounds=1, file=file, BM=[16], BK=[128], BN=[128]).kept
    file.write_text("no answers")
    assert not tune(BM=[16]).kept


def test_reasons_are_listed(tmp_path: Path) -> None:
    x, y = (jnp.ones((64, 128), jnp.float32), jnp.ones((128, 128), jnp.float32))
    with pytest.raises(tp.LaunchError, match=r"none of 2 configurations runs:\n.*'BM': 7"):
        tp.autotune(MATMUL, x, y, file=tmp_path / "a", BM=[7, 9], BK=[128], BN=[128])
    with pytest.raises(tp.LaunchError, match="no configuration to try"):
        tp.autotune(MATMUL, x, y, file=tmp_path / "a", BM=[])


SPANS: dict[str, tuple[Any, list[jax.ShapeDtypeStruct], list[dict[str, Any]]]] = {
    "matmul": (
        MATMUL,
        [jax.ShapeDtypeStruct((1024, 1024), jnp.bfloat16)] * 2,
        [
            dict(zip(("BM", "BK", "BN"), sizes, strict=True))
            for sizes in itertools.product((32, 64, 96, 128), (48, 64), (64, 128, 512))
        ],
    ),
    "attention": (
        attention,
        [jax.ShapeDtypeStruct((1, 1536, 2, 128), jnp.bfloat16)] * 3,
        [
            {"tuning": AttentionTuning(groups=groups, block_k=block_k, stages=stages)}
            for groups, block_k, stages in itertools.product((1, 2), (96, 128, 192), (2, 4))
        ],
    ),
}


@pytest.mark.compiler
@pytest.mark.parametrize("name", SPANS)
def test_no_compiler_takes_what_is_pruned(name: str) -> None:
    kernel, shapes, configurations = SPANS[name]
    pruned, survivors = prune(kernel, tuple(shapes), configurations, "h200")
    assert len(pruned) >= 4 and len(survivors) >= 2
    for configuration, reason in pruned:
        try:
            with left_to_the_compiler():
                tp.compile(functools.partial(kernel, **configuration), *shapes, target="h200")
        except tp.CompileError as error:
            if error.kind == "unavailable":
                pytest.skip(str(error))
        except (tp.PlacementError, tp.LaunchError, tp.SignatureError):
            pass  # cannot even be laid out
        else:
            pytest.fail(f"compiles, but was pruned: {configuration}: {reason}")
