"""Copies and signals between devices: the rule that is broken and no other; interpret mode on four devices judges."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import re
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import remote_kernels
from remote_kernels import KERNELS, X

import typedpallas as tp

FINISHES = sorted(name for name, kernel in KERNELS.items() if not kernel.hangs)


@pytest.mark.parametrize("name", KERNELS)
def test_the_broken_rule_is_named_and_no_other(name: str) -> None:
    kernel = KERNELS[name]
    said = tp.check(kernel.run, X, target="tpu-v5e").diagnostics
    assert tuple(item.rule for item in said) == kernel.wrong, said
    for item in said:
        assert item.verdict == "refuted" and Path(item.file).name == "remote_kernels.py" and item.help
        assert any("every device" in note for note in item.notes) == (name not in ("not_sent", "sent_twice")) or (
            item.rule == "read-before-wait"
        )


@pytest.fixture(scope="module")
def told() -> dict[str, str]:
    """What interpret mode says of each kernel that ends."""
    command = [sys.executable, remote_kernels.__file__, *FINISHES]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    parts = re.split(r"^(\w+): race=(\w+)$", done.stdout + "\n", flags=re.M)
    return {parts[k + 1]: f"{parts[k]} race={parts[k + 2]}" for k in range(0, len(parts) - 3, 3)}


@pytest.mark.parametrize("name", FINISHES)
def test_tpu_interpret_mode_agrees(name: str, told: dict[str, str]) -> None:
    wrong = KERNELS[name].wrong
    raced = "race=True" in told[name]
    assert raced or "read-before-wait" not in wrong, told[name]
    assert not raced or {"read-before-wait", "copy-not-waited"} & set(wrong), told[name]
    left = bool(set(wrong) & {"copy-not-waited", "semaphore-leak"})
    assert ("non-zero count" in told[name]) == left, told[name]
