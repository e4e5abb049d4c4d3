"""What holds for every test: JAX stays on the CPU, made-up inputs are the same in every run."""

import os

from hypothesis import settings

# Before anything imports JAX. Compile workers are processes with an environment of their own.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# A fault of the checker fails a test, instead of being a warning.
os.environ.setdefault("TYPEDPALLAS_DEBUG", "1")

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")
