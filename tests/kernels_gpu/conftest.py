"""The GPU kernels are tested on a CPU: in interpret mode, and by the compiler for chips that are described."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")
