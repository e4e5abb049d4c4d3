"""Annotations, patterns and the rule book work before JAX is imported, and without it."""

import subprocess
import sys

import pytest

STATIC = """
import sys
import typedpallas
import typedpallas as tp
from typedpallas import Dim, In, Multiple, Out, Scratch, bf16, f32, tpu, gpu
from typedpallas import pattern, rules, diagnostics
from typedpallas.types import kernel_type

def kernel[BM: Multiple[8]](x: In[tpu.VMEM, bf16, BM], s: Scratch[gpu.SMEM, f32, BM]) -> None: ...

kernel_type(kernel).facts
pattern.parse("(i BM) -> (i BM)", grid="i")
rules.all_rules()
tp.targets(), tp.PlacementError, tp.Diagnostic, tp.BLOCK, tp.PatternError
found = sorted({name.partition(".")[0] for name in sys.modules} & {"jax", "jaxlib", "numpy", "mypy", "beartype"})
"""


def run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_static_half_imports_no_jax() -> None:
    assert run(STATIC + "print(found)") == "[]"


@pytest.mark.parametrize("use", ["tp.typed", "tpu.sync_copy"])
def test_the_guard_sees_jax_once_it_is_imported(use: str) -> None:
    program = STATIC.replace("found =", f"{use}\nfound =")
    assert "'jax'" in run(program + "print(found)")


def test_unknown_names_are_attribute_errors() -> None:
    program = "import typedpallas as tp, typedpallas.tpu as tpu, typedpallas.gpu as gpu\n"
    for module in ("tp", "tpu", "gpu"):
        assert run(f"{program}print(hasattr({module}, 'nothing_of_this_name'))") == "False"
    assert run(f"{program}print({{'typed', 'launch', 'In'}} <= set(dir(tp)))") == "True"
