"""What interpret mode makes of one subject, in a process of its own, which may hang or go down.

It leaves a JSON line with the modes, then one for each as it ends. The modes
are Pallas's plain one (``hlo``) and the machine's own (``machine``): for TPUs with race detection, two cores and
memory that is NaN until it is written; for Mosaic GPU with race detection.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.mutants.subjects import Module, execute
from typedpallas import chips
from typedpallas.compilers.ambient import target_context
from typedpallas.launching import checks

_DEVICES = 4
"""Chips that those subjects see that run on several."""
_RACE = "RACE DETECTED"
"""What JAX's interpret modes print of a race; the machines keep no common flag."""


def main(file: Path, log: Path) -> None:
    """Write to ``log`` what each mode says of the subject: ``ok``, ``wrong``, ``race`` or an error's first line."""
    jax.config.update("jax_num_cpu_devices", _DEVICES)
    module = execute(file.read_text(), file)
    inputs = list(module.inputs(np.random.default_rng(0)))
    expected = module.reference(*inputs)
    modes = _modes(module, file.read_text())
    with log.open("a", buffering=1) as out:
        print(json.dumps({"mode": "", "said": "", "modes": list(modes)}), file=out)
        for name, mode in modes.items():
            print(json.dumps({"mode": name, "said": _said(mode, inputs, expected)}), file=out)


def _modes(module: Module, source: str) -> dict[str, Callable[..., Any]]:
    if chips.get(module.targets[0]).machine == "tpu":
        from jax.experimental.pallas import tpu as pltpu

        def on_chip(mode: Any) -> Callable[..., Any]:
            """Pipelines inside a kernel ask for the chip that they are traced for."""

            def call(*arrays: Any) -> Any:
                with target_context(module.targets[0]):
                    return module.run(*arrays, interpret=mode)

            return call

        careful = pltpu.InterpretParams(detect_races=True, uninitialized_memory="nan", num_cores_or_threads=2)
        modes = {"hlo": on_chip(True), "machine": on_chip(careful)}
        if "remote_copy" in source:  # Pallas's plain mode knows none whose device has a name.
            del modes["hlo"]
        return modes
    if "plgpu.kernel" in source:
        from jax.experimental.pallas import mosaic_gpu as plgpu

        def careful_gpu(*arrays: Any) -> Any:
            with plgpu.force_gpu_interpret_mode(plgpu.InterpretGPUParams(detect_races=True)):
                return module.run(*arrays)

        return {"machine": careful_gpu}
    return {"hlo": lambda *arrays: module.run(*arrays, interpret=True)}


def _said(run: Callable[..., Any], inputs: list[Any], expected: Any) -> str:
    printed = io.StringIO()
    try:
        with redirect_stdout(printed), checks.left_to_the_compiler():
            found = jax.block_until_ready(run(*inputs))
    except Exception as error:
        lines = str(error).strip().splitlines() or [""]
        return f"{type(error).__name__}: {lines[0]}"[:200]
    if _RACE in printed.getvalue():
        return "race"
    return "ok" if _same(found, expected) else "wrong"


def _same(found: Any, expected: Any) -> bool:
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return False
    close = 5e-2 if found.dtype.itemsize < 4 else 1e-3
    a, b = (np.asarray(x.astype(jnp.float32)) for x in (found, expected))
    return bool(np.allclose(a, b, rtol=close, atol=close))
