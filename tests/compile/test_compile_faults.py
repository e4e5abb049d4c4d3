"""Refusals, crashes, hangs and missing compilers are verdicts; the session goes on."""

import pickle
import time
from importlib import metadata
from pathlib import Path

import pytest
from compile_kernels import (
    needs_gpu,
    needs_tpu,
    own_mistake,
    pipelined,
    scaled,
    shape,
    too_much_shared_memory,
)

from typedpallas import compilers
from typedpallas.compilers import versions
from typedpallas.compilers.pool import POOL


@needs_tpu
def test_a_refusal_gives_the_compilers_reason() -> None:
    with pytest.raises(compilers.CompileError) as caught:
        compilers.compile(scaled((8192, 512)), shape(65536, 512), target="tpu-v5e")
    error = caught.value
    assert (error.kind, error.stage, error.target) == ("refused", "compile", "tpu-v5e")
    assert error.reason.startswith("Ran out of memory in memory space vmem")
    assert "64.00M and limit 16.00M" in error.reason
    assert "0x" not in error.reason and "/" not in error.reason
    assert error.reason in str(error)


@needs_gpu
def test_shared_memory_is_refused_with_its_figures() -> None:
    with pytest.raises(compilers.CompileError) as caught:
        compilers.compile(too_much_shared_memory, shape(512, 512), target="h100")
    assert caught.value.kind == "refused"
    assert caught.value.reason.endswith("available: 232448")


def test_pallas_own_refusal_names_the_users_line() -> None:
    with pytest.raises(compilers.CompileError) as caught:
        compilers.lower_for(scaled((12, 100)), shape(96, 200), target="tpu-v5e")
    error = caught.value
    assert (error.kind, error.stage) == ("refused", "lower")
    assert "divisible by 8 and 128" in error.reason
    assert error.where is not None and error.where[0].endswith("compile_kernels.py")
    assert isinstance(error.__cause__, ValueError)


@pytest.mark.parametrize("name", ["tpu-v5e", "h100"])
def test_a_mistake_of_the_users_own_is_left_alone(name: str) -> None:
    with pytest.raises(TypeError, match="the user's own"):
        compilers.lower_for(own_mistake, shape(8, 128), target=name)


def test_a_mistake_that_every_target_refuses_is_left_alone() -> None:
    def wrong_rank(x: object) -> object:
        return scaled((8,))(x)  # type: ignore[arg-type]

    with pytest.raises(ValueError, match="same number of dimensions"):
        compilers.lower_for(wrong_rank, shape(64, 128), target="tpu-v5e")


@needs_tpu
def test_a_crash_is_survived() -> None:
    with pytest.raises(compilers.CompileError) as caught:
        compilers.compile(scaled(index=99), shape(64, 128), target="tpu-v5e")
    assert caught.value.kind == "crashed"
    assert caught.value.reason.startswith("Check failed: ")
    assert compilers.compile(scaled(), shape(64, 128), target="tpu-v5e").memory.code


@needs_tpu
def test_a_hang_is_ended_and_survived() -> None:
    huge = scaled((65536, 65536))  # one block of 16 GiB
    start = time.monotonic()
    with pytest.raises(compilers.CompileError) as caught:
        compilers.compile(huge, shape(65536, 65536), target="tpu-7x", deadline=3.0)
    assert caught.value.kind == "timeout"
    assert "3 s" in caught.value.reason
    assert time.monotonic() - start < 60
    assert compilers.compile(scaled(), shape(64, 128), target="tpu-7x").memory.code
    with pytest.raises(compilers.CompileError) as again:  # a timeout is no lasting verdict
        compilers.compile(huge, shape(65536, 65536), target="tpu-7x", deadline=1.0)
    assert again.value.kind == "timeout" and not again.value.cached


def test_lowering_that_does_not_end_is_ended() -> None:
    def endless(x: object) -> object:
        while True:
            time.sleep(0.01)

    with pytest.raises(compilers.CompileError) as caught:
        compilers.lower_for(endless, shape(8, 128), target="h100", deadline=0.5)
    assert (caught.value.kind, caught.value.stage) == ("timeout", "lower")
    assert compilers.lower_for(pipelined, shape(64, 128), target="tpu-v5e").kernels


@pytest.mark.parametrize(("name", "extra"), [("tpu-v5e", "tpu"), ("l40s", "gpu")])
def test_a_missing_compiler_names_the_line_that_installs_it(
    name: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = metadata.version

    def hidden(distribution: str) -> str:
        if distribution in ("libtpu", "jax-cuda13-plugin", "jax-cuda12-plugin"):
            raise metadata.PackageNotFoundError(distribution)
        return real(distribution)

    monkeypatch.setattr(metadata, "version", hidden)
    with pytest.raises(compilers.CompileError) as caught:
        compilers.compile(scaled(), shape(64, 128), target=name)
    assert caught.value.kind == "unavailable"
    assert f'pip install "typedpallas[{extra}]"' in caught.value.reason
    assert versions.installed(extra) is None


@needs_tpu
def test_a_compiler_that_does_not_load_is_unavailable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "libtpu.py").write_text("raise ImportError('libtpu is broken here')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("TPU_LIBRARY_PATH", raising=False)  # set by importing jax with libtpu there
    compilers.shutdown()
    try:
        with pytest.raises(compilers.CompileError) as caught:
            compilers.compile(scaled(), shape(64, 128), target="tpu-v4")
    finally:
        compilers.shutdown()
    assert caught.value.kind == "unavailable"
    assert 'pip install "typedpallas[tpu]"' in caught.value.reason


@needs_tpu
def test_a_worker_that_died_while_idle_is_replaced() -> None:
    compilers.compile(scaled(), shape(64, 128), target="tpu-v5e")
    for worker in POOL._idle:
        worker.kill()
    assert not compilers.compile(scaled(), shape(72, 128), target="tpu-v5e").cached


def test_a_compile_error_survives_pickling() -> None:
    error = compilers.CompileError(kind="refused", target="h100", reason="no", where=("a.py", 3))
    again = pickle.loads(pickle.dumps(error))
    assert vars(again) == vars(error) and str(again) == str(error)
