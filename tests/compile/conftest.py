"""The compiler tests' cache is a fresh folder for each test; their compilers' processes end with the last."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from collections.abc import Iterator
from pathlib import Path

import pytest

from typedpallas import compilers


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("TYPEDPALLAS_CACHE", str(folder))
    return folder


@pytest.fixture(autouse=True, scope="session")
def no_process_left() -> Iterator[None]:
    yield
    compilers.shutdown()
