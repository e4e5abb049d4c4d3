"""One run of mypy over all cases."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import harness


@pytest.fixture(scope="session")
def checked() -> list[harness.Message]:
    """What mypy says of every file in ``cases``."""
    done = harness.mypy(sorted(harness.CASES.glob("*/*.py")))
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return harness.messages(done.stdout)
