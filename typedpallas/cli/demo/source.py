"""Step 1: mypy on a file of broken kernels, then on the mended ones. Nothing is run."""

import shutil
import tempfile
import time
from collections.abc import Callable
from importlib import resources
from pathlib import Path

from typedpallas.cli import mypying, terminal
from typedpallas.cli import show as showing
from typedpallas.cli.demo import heading
from typedpallas.cli.terminal import Screen

FILES = ("broken.py", "fixed.py")


def folder() -> Path:
    """Where the two files lie in the package."""
    return Path(str(resources.files("typedpallas.cli") / "demo_files"))


def show(on: Screen, progress: Callable[[], str] = str) -> bool:
    """Run mypy and print what it says; whether the broken file has errors and the mended one has none.

    ``progress`` says what else goes on meanwhile.
    """
    from typedpallas.compilers import cache

    heading(on, 1, "mypy reads the source of six kernels, each with one mistake; no accelerator, nothing is run")
    file = terminal.shown_path(str(folder() / FILES[0]))
    on.write(on.paint(on.fold(f"{file}; the first time mypy also reads JAX, about 20 s"), "dim"))
    on.write()
    start = time.monotonic()
    try:
        broken, fixed = terminal.while_waiting(
            on, lambda: check(cache.folder() / "demo-mypy"), lambda: f"mypy works ... {progress()}"
        )
    except mypying.MypyFailed as failure:
        on.write(f"mypy did not finish:\n{failure}")
        return False
    for error in [*broken, *fixed]:
        item = error.diagnostic
        for line in showing.lines(on, item, (), error.end_column, str(folder() / item.file)):
            on.write(line)
        on.write()
    tally = f"broken.py: {showing.tally([error.diagnostic for error in broken])}"
    clean = f"fixed.py, the same six kernels mended: {showing.tally([error.diagnostic for error in fixed])}"
    on.write(f"{tally}; {clean} ({time.monotonic() - start:.0f} s)")
    return bool(broken) and not fixed


def check(cache: Path) -> tuple[list[mypying.Error], list[mypying.Error]]:
    """What mypy says of the broken and of the mended file, from copies outside of the package.

    mypy is silent about files in ``site-packages``, where an installed typedpallas lies.

    Raises:
        MypyFailed: mypy did not check them.
    """
    with tempfile.TemporaryDirectory(prefix="typedpallas-demo-") as name:
        for file in FILES:
            shutil.copy(folder() / file, name)
        found = mypying.check(FILES, Path(name), cache)
    broken, fixed = ([error for error in found if error.diagnostic.file == file] for file in FILES)
    return broken, fixed
