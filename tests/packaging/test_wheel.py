"""The wheel: what is in it, and that mypy finds the stubs and the plugin in an installation of it."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = """
import jax.numpy as jnp
from typedpallas import Block, Dim, In, Out, f32
from typedpallas.tpu import HBM, VMEM

def kernel[M: Dim, N: Dim](x: In[VMEM, f32, M, N], far: In[HBM, f32, M, N], o: Out[VMEM, f32, N, M]) -> None:
    o[...] = jnp.exp(x[...]).T
    o[...] = far[...].T
    reveal_type(x)
"""


def run(*command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the sources, with the build back end that is installed here."""
    pytest.importorskip("hatchling", reason="building needs hatchling: pip install hatchling")
    out = tmp_path_factory.mktemp("wheel")
    pip = (
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
        str(out),
    )
    done = run(*pip, str(ROOT), cwd=out)
    assert done.returncode == 0, done.stderr
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment of its own that has the wheel and, behind it, this one's packages."""
    home = tmp_path_factory.mktemp("site")
    assert run(sys.executable, "-m", "venv", "--without-pip", str(home), cwd=home).returncode == 0
    packages = next((home / "lib").glob("python*")) / "site-packages"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    here = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    (packages / "behind.pth").write_text("\n".join(here))
    return home


def test_the_wheel_holds_three_packages_and_their_data(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = archive.read(next(n for n in names if n.endswith(".dist-info/METADATA"))).decode()
        entries = archive.read(next(n for n in names if n.endswith("entry_points.txt"))).decode()
    roots = {name.split("/")[0] for name in names if ".dist-info" not in name}
    assert roots == {"typedpallas", "typedpallas_mypy", "typedpallas-stubs"}
    assert {
        "typedpallas/py.typed",
        "typedpallas_mypy/py.typed",
        "typedpallas-stubs/py.typed",
        "typedpallas-stubs/__init__.pyi",
        "typedpallas-stubs/_public.pyi",
        "typedpallas/chips/tpu-v5e.toml",
        "typedpallas/rules/load_from_hbm.py",
    } <= names
    sources = {str(path.relative_to(ROOT)) for path in (ROOT / "typedpallas").rglob("*.py")}
    assert sources <= names, "every module is in the wheel"
    assert "Apache-2.0" in metadata and any(name.endswith("licenses/LICENSE") for name in names)
    assert all(f"Provides-Extra: {extra}" in metadata for extra in ("tpu", "gpu", "dev"))
    assert "typedpallas = typedpallas.cli:main" in entries


def test_an_installed_wheel_is_what_is_imported(site: Path) -> None:
    program = "import typedpallas, typedpallas_mypy; print(typedpallas.__file__); print(typedpallas_mypy.__file__)"
    done = run(str(site / "bin" / "python"), "-c", program, cwd=site)
    assert done.returncode == 0, done.stderr
    assert all(line.startswith(str(site)) for line in done.stdout.split())


def test_mypy_finds_the_stubs_and_the_plugin_of_the_wheel(site: Path) -> None:
    (site / "kernel.py").write_text(PROGRAM)
    (site / "mypy.ini").write_text("[mypy]\nplugins = typedpallas_mypy\ncheck_untyped_defs = true\n")
    options = (f"--cache-dir={ROOT / '.cache' / 'wheel-mypy'}", "--no-error-summary")
    done = run(str(site / "bin" / "python"), "-m", "mypy", *options, "kernel.py", cwd=site)
    errors = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert len(errors) == 1 and errors[0].startswith("kernel.py:8:"), done.stdout + done.stderr
    assert "[load-from-hbm]" in errors[0]
    assert "In[typedpallas.tpu.VMEM, typedpallas.dtypes.f32, M" in done.stdout
