"""Launch tests run on a CPU; chips that are traced for are described, not present."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")
