"""What `tp.autotune` drops before anything is compiled, and whether the compiler would have taken any of it.

Run as ``python -m benchmarks.pruned`` from the repository's root, anywhere: no GPU is needed. Every configuration is
judged by the checker and then handed to the target's own compiler, the dropped ones with the checks switched off.
Prints a table in Markdown; the exit code is 1 if a dropped configuration compiles.
"""

import argparse
import functools
import itertools
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp

import typedpallas as tp
from typedpallas import compilers
from typedpallas.autotuning import Configuration, prune
from typedpallas.kernels.gpu.attention import attention
from typedpallas.kernels.gpu.attention_gradients import attention_backward
from typedpallas.kernels.gpu.attention_tuning import AttentionTuning, BackwardTuning
from typedpallas.kernels.gpu.matmul import matmul
from typedpallas.kernels.gpu.matmul_tuning import MatmulTuning
from typedpallas.kernels.matmul import launch as portable_matmul
from typedpallas.launching.checks import left_to_the_compiler

_HALF = "bfloat16"


@dataclass(frozen=True)
class Span:
    """A kernel, the shapes that it is tuned for, and every configuration to try."""

    name: str
    kernel: Callable[..., Any]
    shapes: tuple[jax.ShapeDtypeStruct, ...]
    configurations: tuple[Configuration, ...]
    targets: tuple[str, ...] = ("h200",)


def main() -> int:
    """Print the table; 0 if nothing that was dropped compiles."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="parts of kernels' names; all of them")
    chosen = parser.parse_args().names
    print("| kernel | target | configurations | dropped | of these compile | kept | of these compile |")
    print("|---|---|---|---|---|---|---|")
    wrong = 0
    for span in spans():
        if not chosen or any(part in span.name for part in chosen):
            for target in span.targets:
                wrong += report(span, target)
    compilers.shutdown()
    return int(wrong > 0)


def report(span: Span, target: str) -> int:
    """Print the row of a kernel; how many dropped configurations compile."""
    dropped, kept = prune(span.kernel, span.shapes, span.configurations, target)
    wrong = [(made, reason) for made, reason in dropped if compiles(span, made, target)]
    right = sum(compiles(span, made, target) for made in kept)
    counts = (len(span.configurations), len(dropped), len(wrong), len(kept), right)
    print(f"| {span.name} | {target} | {' | '.join(map(str, counts))} |", flush=True)
    for made, reason in wrong:
        print(f"compiles, but was dropped: {made}: {reason}", file=sys.stderr)
    return len(wrong)


def compiles(span: Span, configuration: Configuration, target: str) -> bool:
    """Whether the target's compiler takes it, checks aside."""
    try:
        with left_to_the_compiler():
            tp.compile(functools.partial(span.kernel, **configuration), *span.shapes, target=target)
    except tp.CompileError as error:
        if error.kind == "unavailable":
            raise
        return False
    except (tp.PlacementError, tp.LaunchError, tp.SignatureError):
        return False  # it cannot even be laid out
    return True


def spans() -> Iterator[Span]:
    """Configurations as a person would list them, without knowing what fits."""
    square = (jax.ShapeDtypeStruct((2048, 2048), jnp.dtype(_HALF)),) * 2
    blocks = itertools.product((32, 64, 96, 128), (48, 64, 128), (64, 128, 512))
    portable = tuple(dict(zip(("BM", "BK", "BN"), sizes, strict=True)) for sizes in blocks)
    yield Span("matmul, portable", portable_matmul, square, portable, ("a100", "h200", "b200"))
    tiles = itertools.product((64, 128, 256), (128, 256), (32, 64, 128), (3, 4), (None, "m"))
    hopper = tuple(
        {"tuning": MatmulTuning(tile_m=m, tile_n=n, tile_k=k, stages=s, cluster=c, bare=True)}
        for m, n, k, s, c in tiles
    )
    yield Span("matmul, Hopper", matmul, square, hopper)
    heads = (jax.ShapeDtypeStruct((1, 1536, 2, 128), jnp.dtype(_HALF)),) * 3
    forward = tuple(
        {"tuning": AttentionTuning(groups=g, block_k=k, stages=s)}
        for g, k, s in itertools.product((1, 2, 3), (64, 96, 128, 192, 256), (2, 3, 4))
    )
    yield Span("attention, Hopper", attention, heads, forward)
    kept = (heads[0], jax.ShapeDtypeStruct((1, 2, 1536), jnp.float32), heads[0])
    backward = tuple(
        {"tuning": BackwardTuning(groups=g, block_q=q, block_k=k, stages=s)}
        for g, q, k, s in itertools.product((1, 2), (64, 96, 128), (64, 128, 192), (1, 2, 3))
    )
    yield Span("attention backward, Hopper", attention_backward, (*heads, *kept), backward)


if __name__ == "__main__":
    sys.exit(main())
