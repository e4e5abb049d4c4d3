"""Verdicts are asked for once."""

import threading
from pathlib import Path
from typing import Any

import pytest
from compile_kernels import needs, needs_gpu, needs_tpu, pipelined_gpu, scaled, shape

from typedpallas import compilers
from typedpallas.compilers import cache
from typedpallas.compilers.pool import POOL

SOURCE = """
import jax, jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
{blank}
def kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...] {operation}

def on_tpu(x):
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)

on_triton = on_tpu

def on_mosaic(x):
    return plgpu.kernel(kernel, out_type=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)
"""

BACKENDS = [
    pytest.param("on_tpu", "tpu-v5e", marks=needs("tpu")),
    pytest.param("on_triton", "a100", marks=needs("gpu")),
    pytest.param("on_mosaic", "h100", marks=needs("gpu")),
]


def written(folder: Path, name: str, blank: str = "", operation: str = "+ 1.0") -> dict[str, Any]:
    """The kernels of `SOURCE`, in a file of their own so that their source locations are theirs."""
    path = folder / f"{name}.py"
    path.write_text(SOURCE.format(blank=blank, operation=operation))
    space: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), space)
    return space


@pytest.mark.parametrize(("kernel", "target"), BACKENDS)
def test_moved_source_hits_the_cache_and_changed_source_does_not(kernel: str, target: str, tmp_path: Path) -> None:
    x = shape(64, 128)
    first = compilers.compile(written(tmp_path, "first")[kernel], x, target=target)
    moved = compilers.compile(written(tmp_path, "second", blank="\n" * 7)[kernel], x, target=target)
    assert (first.cached, moved.cached) == (False, True)
    assert moved.module == first.module and moved.memory == first.memory and moved.kernels == first.kernels
    changed = compilers.compile(written(tmp_path, "third", operation="* 3.0")[kernel], x, target=target)
    assert not changed.cached


@needs_tpu
def test_a_hit_starts_no_process() -> None:
    compilers.compile(scaled(), shape(64, 128), target="tpu-v5e")
    compilers.shutdown()
    before = POOL.started
    assert compilers.compile(scaled(), shape(64, 128), target="tpu-v5e").cached
    assert POOL.started == before


@needs_tpu
@pytest.mark.parametrize(
    ("fn", "x", "kind"),
    [(scaled((8192, 512)), shape(65536, 512), "refused"), (scaled(index=99), shape(64, 128), "crashed")],
)
def test_refusals_and_crashes_are_kept(fn: Any, x: Any, kind: str) -> None:
    errors = []
    for _ in range(2):
        with pytest.raises(compilers.CompileError) as caught:
            compilers.compile(fn, x, target="tpu-v5e")
        errors.append(caught.value)
    first, second = errors
    assert first.kind == second.kind == kind
    assert (first.cached, second.cached) == (False, True)
    assert (first.reason, first.detail, first.where) == (second.reason, second.detail, second.where)


@needs_tpu
@pytest.mark.parametrize("content", [b"", b"not a verdict", b"\x1f\x8b\x08\x00broken"])
def test_a_broken_file_is_written_again(content: bytes, cache_folder: Path) -> None:
    compilers.compile(scaled(), shape(64, 128), target="tpu-v5e")
    (file,) = cache_folder.rglob("*.gz")
    whole = file.read_bytes()
    file.write_bytes(content)
    assert not compilers.compile(scaled(), shape(64, 128), target="tpu-v5e").cached
    assert len(file.read_bytes()) == pytest.approx(len(whole), rel=0.2)
    assert compilers.compile(scaled(), shape(64, 128), target="tpu-v5e").cached
    assert list(cache_folder.rglob("new-*")) == []


def test_a_verdict_under_a_foreign_name_is_ignored(cache_folder: Path) -> None:
    cache.write("ab" * 32, {"kind": "compiled"})
    assert cache.read("ab" * 32) == {"kind": "compiled"}
    (file,) = cache_folder.rglob("*.gz")
    other = file.with_name(f"{'ab' * 31}cd.json.gz")
    file.rename(other)
    assert cache.read("ab" * 31 + "cd") is None


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    monkeypatch.setenv("TYPEDPALLAS_CACHE", str(blocked))
    cache.write("ab" * 32, {"kind": "compiled"})
    assert cache.read("ab" * 32) is None


def test_writers_at_the_same_time_leave_a_whole_file() -> None:
    name, verdicts = "cd" * 32, [{"kind": "compiled", "module": str(i) * 50_000} for i in range(8)]
    threads = [threading.Thread(target=cache.write, args=(name, verdict)) for verdict in verdicts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cache.read(name) in verdicts


@pytest.mark.parametrize("what", ["text", "target", "compiler", "options", "flags"])
def test_the_key_covers_what_the_verdict_depends_on(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parts: dict[str, Any] = {"text": "a", "target": {"name": "h100"}, "compiler": "1", "options": {}}
    first = cache.key(**parts)
    assert cache.key(**parts) == first
    if what == "flags":
        monkeypatch.setenv("XLA_FLAGS", "--xla_gpu_something=1")
    else:
        parts[what] = {"other": 1} if isinstance(parts[what], dict) else "other"
    assert cache.key(**parts) != first


def test_the_folder_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache.folder() == tmp_path / "cache"
    monkeypatch.delenv("TYPEDPALLAS_CACHE")
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache.folder() == tmp_path / "xdg" / "typedpallas"


@needs_gpu
def test_the_same_mosaic_gpu_kernel_lowered_twice_is_one_kernel() -> None:
    """Mosaic GPU numbers the kernels of a process inside their modules."""
    for cached in (False, True):
        fresh = lambda x: pipelined_gpu(x)  # noqa: E731  a new function, so that JAX lowers it again
        assert compilers.compile(fresh, shape(128, 128), target="h100").cached is cached
