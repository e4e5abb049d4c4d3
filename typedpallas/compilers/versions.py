"""Which vendor's compiler is installed, and what to install where none is."""

from importlib import metadata
from typing import Literal

from typedpallas.chips import Target, get
from typedpallas.compilers.results import CompileError

_PACKAGES: dict[str, tuple[tuple[str, ...], ...]] = {
    "tpu": (("libtpu",),),
    "gpu": (("jax-cuda13-plugin", "jax-cuda13-pjrt"), ("jax-cuda12-plugin", "jax-cuda12-pjrt")),
}
"""For each machine the sets of distributions that hold its compiler; the first installed one counts."""


def install_hint(machine: Literal["tpu", "gpu"]) -> str:
    """The one line that installs the machine's compiler."""
    return f'pip install "typedpallas[{machine}]"'


def installed(machine: Literal["tpu", "gpu"]) -> str | None:
    """The installed compiler with its version, ``libtpu 0.0.48.1``; none where there is none."""
    for names in _PACKAGES[machine]:
        versions = [_version(name) for name in names]
        if all(versions):
            return f"{names[0]} {versions[0]}"
    return None


def compiler_version(target: str | Target) -> str:
    """The vendor's compiler for the target, with what its verdicts depend on.

    Raises:
        CompileError: unavailable; the reason says what to install.
    """
    chip = get(target) if isinstance(target, str) else target
    found = installed(chip.machine)
    if found is None:
        packages = " or ".join(" with ".join(names) for names in _PACKAGES[chip.machine])
        raise CompileError(
            kind="unavailable",
            target=chip.name,
            reason=f"its compiler is not installed: {install_hint(chip.machine)}",
            detail=f"looked for {packages}",
        )
    return f"{found} (jax {_version('jax')}, jaxlib {_version('jaxlib')})"


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None
