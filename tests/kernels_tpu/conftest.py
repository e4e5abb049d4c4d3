"""The TPU kernels are tested on a CPU: in TPU interpret mode, which looks for races, and by the TPU compiler."""

import io
import os
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import pytest
from jax.experimental.pallas import tpu as pltpu


@pytest.fixture(params=[1, 2], ids=["one core", "two cores"])
def raceless(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Runs ``fn(*arrays, interpret=...)`` where memory is NaN until it is written; fails where there is a race."""
    mode = pltpu.InterpretParams(detect_races=True, num_cores_or_threads=request.param)

    def run(fn: Callable[..., Any], *arrays: Any, **options: Any) -> Any:
        printed = io.StringIO()
        with redirect_stdout(printed):
            found = jax.block_until_ready(fn(*arrays, **options, interpret=mode))
        assert "RACE DETECTED" not in printed.getvalue(), printed.getvalue()
        return found

    return run
