"""The set-up's search for a Python, and what it says where there is none."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def find(tmp_path: Path, *programs: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the search where the PATH has the shell's own tools and ``programs`` that say they are Python 3.12."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("bash", "cat", "dirname", "env"):
        source = next(p for d in os.get_exec_path() if (p := Path(d) / tool).exists())
        (tools / tool).symlink_to(source)
    for name in programs:
        (tools / name).symlink_to(sys.executable)
    environment = {"PATH": str(tools), "HOME": str(tmp_path), "PYENV_ROOT": str(tmp_path / "pyenv")} | variables
    script = ROOT / "scripts" / "find_python.sh"
    return subprocess.run([str(script)], env=environment, capture_output=True, text=True, timeout=30)


def test_the_one_asked_for(tmp_path: Path) -> None:
    assert find(tmp_path, "python3", PYTHON=sys.executable).stdout.strip() == sys.executable


def test_one_that_is_too_old_or_missing_is_refused(tmp_path: Path) -> None:
    done = find(tmp_path, "python3", PYTHON="/bin/false")
    assert done.returncode == 1 and done.stderr == "PYTHON=/bin/false is not a Python 3.12 or newer.\n"


def test_pyenv_comes_before_the_path(tmp_path: Path) -> None:
    wanted = (ROOT / ".python-version").read_text().strip()
    home = tmp_path / "pyenv" / "versions" / f"{wanted}.1" / "bin"
    home.mkdir(parents=True)
    (home / "python").symlink_to(sys.executable)
    assert find(tmp_path, "python3").stdout.strip() == str(home / "python")


def test_the_path(tmp_path: Path) -> None:
    assert find(tmp_path, "python3").stdout.strip() == str(tmp_path / "tools" / "python3")


def test_none_at_all(tmp_path: Path) -> None:
    done = find(tmp_path)
    assert done.returncode == 1 and done.stdout == ""
    assert "typedpallas needs Python 3.12 or newer" in done.stderr and "apt install python3.12" in done.stderr
