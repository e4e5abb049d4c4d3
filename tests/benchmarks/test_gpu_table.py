"""The GPU table: ours beside the best of the others that were right, and chains that depend on each other."""

import time

import jax.numpy as jnp
import pytest

from benchmarks import gpu
from benchmarks.gpu_timing import Entry, Problem, Result, solve


def result(problem: str, who: str, rate: float, seconds: float = 1.0, unit: str = "TFLOP/s") -> Result:
    return Result(problem, who, who, error=1e-3, seconds=[seconds], unit=unit, rate=rate)


def test_rows_of_the_table() -> None:
    results = [
        result("matmul bfloat16 8", "ours", 300.0),
        result("matmul bfloat16 8", "vendor", 200.0),
        Result("matmul bfloat16 8", "wrong", "jax", failure="wrong", rate=900.0),
        result("attention float16 small", "ours", 1.0, seconds=2e-6),
        result("attention float16 small", "jax", 0.5, seconds=4e-6),
        result("copy float32", "ours", 3000.0, unit="GB/s"),
        Result("copy float32", "XLA", "vendor", error=0.0, seconds=[1.0], unit="GB/s", rate=4000.0),
        result("decode float16", "ours", 2000.0, unit="GB/s"),
        Result("grouped", "ours", "ours", failure="no time left"),
    ]
    lines = gpu._table(results).splitlines()[2:]
    assert lines[0] == "| matmul bfloat16 8 | 300 TFLOP/s | 1.0e-03 | 200 TFLOP/s, vendor | 1.0e-03 | 1.50 |  |"
    assert "| 2.0 us | 1.0e-03 | 4.0 us, jax |" in lines[1] and "| 2.00 |" in lines[1]
    assert lines[2].endswith("| 0.75 | 0.75 |")
    assert lines[3].split("|")[-2].strip() == ""
    assert lines[4].startswith("| grouped | not measured |")


def test_every_problem_has_a_name_of_its_own() -> None:
    import jax

    names = [name for name, _ in gpu.problems(jax.random.key(0), [], True)]
    assert len(set(names)) == len(names) >= 50
    chosen = [name for name, _ in gpu.problems(jax.random.key(0), ["decode", "matmul bfloat16 8192"], True)]
    assert {name.split()[0] for name in chosen} == {"decode", "matmul"}


@pytest.mark.parametrize("chain", [1, 3])
def test_what_is_wrong_is_not_timed(chain: int) -> None:
    x = jnp.eye(8)
    entries = (Entry("right", lambda a, b: a @ b, "ours"), Entry("off", lambda a, b: a @ b + 1, "vendor"))
    problem = Problem("product", (x, x), entries, lambda a, b: a @ b, 1e-5, 1.0, chain=chain)
    later = time.perf_counter() + 60
    right, wrong = solve(problem, 2, later, 0.0, later)
    assert len(right.seconds) == 2 and not right.failure
    assert not wrong.seconds and "wrong: relative error" in wrong.failure
    (late,) = solve(Problem("p", (x, x), entries[:1], lambda a, b: a @ b, 1e-5, 1.0), 2, later, 0.0, 0.0)
    assert late.failure == "no time left"
