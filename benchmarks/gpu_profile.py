"""One call of each entry of some problems, for a profiler that collects only between the calls to start and stop.

For instance, on a Hopper GPU, from the repository's root::

    ncu --clock-control none --profile-from-start off -k regex:"attention|matmul|gemm|nvjet|sdpa" \\
        python3 -m benchmarks.gpu_profile "matmul bfloat16 8192" --entries cuBLAS --entries "cluster m lag 2"
"""

import argparse
import ctypes
import re
import sys
from pathlib import Path

import jax

from benchmarks.gpu import problems


def main() -> int:
    """Compile and run once, then once more for the profiler."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problems", nargs="+", help="parts of their names")
    parser.add_argument(
        "--entries", action="append", default=[], help="parts of their names; our default and vendors"
    )
    parser.add_argument("--quick", action="store_true", help="of our kernels, only the default configurations")
    options = parser.parse_args()
    runtime = _runtime()
    for _, make in problems(jax.random.key(1), options.problems, options.quick):
        problem = make()
        for entry in problem.entries:
            if not any(part in entry.name for part in options.entries or [entry.name]):
                continue
            arguments = problem.arrays if entry.prepare is None else entry.prepare(*problem.arrays)
            run = jax.jit(entry.run)
            jax.block_until_ready(run(*arguments))
            print(f"{problem.name}: {entry.who}: {entry.name}", flush=True)
            runtime.cudaProfilerStart()
            jax.block_until_ready(run(*arguments))
            runtime.cudaProfilerStop()
    return 0


def _runtime() -> ctypes.CDLL:
    """The CUDA runtime that JAX has loaded."""
    jax.devices()
    found = re.search(r"/\S*libcudart\.so\S*", Path("/proc/self/maps").read_text())
    return ctypes.CDLL(found.group(0) if found else "libcudart.so")


if __name__ == "__main__":
    sys.exit(main())
