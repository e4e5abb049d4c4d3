"""Answers of JAX kept between runs: found again without JAX, never stale, whatever happens to the file."""

import importlib.machinery
import os
import subprocess
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor

import harness
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mypy.options import Options

from typedpallas.dims import Size
from typedpallas_mypy import store, version, written
from typedpallas_mypy.call import Refused, Several
from typedpallas_mypy.store import Store
from typedpallas_mypy.value import Value

_KERNEL = """
from typing import reveal_type
import jax.numpy as jnp
from typedpallas import Dim, In, Out, f32
from typedpallas.tpu import VMEM

def kernel[{n}: Dim, M: Dim](x: In[VMEM, f32, {n}, M], y: In[VMEM, f32, M, {n}], out: Out[VMEM, f32, {n}]) -> None:
    reveal_type(jnp.sum(jnp.exp(x[...] * 2.5), axis=1))
    out[...] = jnp.sum(jnp.dot(x[...], y[...]), axis=0)
    x[...] + y[...]
"""
_RUN = """
import sys
from mypy import api
output, errors, _ = api.run(sys.argv[1:])
print(output, errors)
print("jax imported:", "jax" in sys.modules)
"""


def _check(folder, *flags):
    command = [sys.executable, "-c", _RUN, "--config-file", harness.CONFIG, "--cache-dir", harness.CACHE, *flags]
    done = subprocess.run([*map(str, command), "kernel.py"], capture_output=True, text=True, cwd=folder, timeout=300)
    assert "Found 1 error" in done.stdout and "operator:add" not in done.stdout, done.stdout + done.stderr
    text, _, imported = done.stdout.partition("jax imported: ")
    return text, imported.strip() == "True"


def test_a_known_kernel_is_checked_again_without_jax(tmp_path):
    """A name that no run has seen needs JAX once; the same calls elsewhere in a changed file do not."""
    kernel = tmp_path / "kernel.py"
    text = _KERNEL.format(n=f"N{uuid.uuid4().hex[:8]}")
    kernel.write_text(text)
    first, imported = _check(tmp_path)
    assert imported and "Block[" in first
    kernel.write_text(text + "\nsomething = 1\n")
    again, imported = _check(tmp_path)
    assert not imported
    assert again == first
    kernel.write_text(text.replace("* 2.5", "* 0.125"))
    assert _check(tmp_path) == (first, False)  # another number, the same type
    kernel.write_text(text + "\nelse_ = 1\n")
    fresh, imported = _check(tmp_path, "--no-incremental")
    assert imported
    assert [line for line in fresh.splitlines() if "kernel.py" in line] == [
        line for line in first.splitlines() if "kernel.py" in line
    ]


def test_damage_is_as_good_as_absence(tmp_path):
    path = tmp_path / "folder" / "a.answers"
    kept = Store(str(path))
    kept.put("add(1)", "[2]")
    kept.put("add(2)", "[3]")
    lines = path.read_bytes().splitlines()
    swapped = lines[0].replace(b"[2]", b"[9]")
    path.write_bytes(b"\x00\xff nonsense\n" + swapped + b"\n\n" + lines[1] + b"\n" + lines[0][:12])
    found = Store(str(path))
    assert found.get("add(1)") is None and found.get("add(2)") == "[3]"
    found.put("add(1)", "[2]")
    again = Store(str(path))
    assert again.get("add(1)") == "[2]" and again.get("add(2)") == "[3]"


def test_an_answer_that_means_nothing_is_asked_again():
    for text in ("", "[", "7", '["value"]', '["value", null, null, false, "T"]', '["several", "tuple"]'):
        with pytest.raises((ValueError, TypeError, KeyError)):
            written.read(text, {})


def test_a_place_that_cannot_be_written_only_forgets(tmp_path):
    (tmp_path / "file").write_text("")
    kept = Store(str(tmp_path / "file" / "a.answers"))
    kept.put("add(1)", "[2]")
    assert kept.get("add(1)") == "[2]"


def test_many_at_once(tmp_path):
    """Processes that write the same file at the same time lose nothing."""
    path = tmp_path / "a.answers"
    code = (
        "import sys\nfrom typedpallas_mypy.store import Store\nkept = Store(sys.argv[1])\n"
        "for i in range(300): kept.put(f'{sys.argv[2]}({i})', str(i) * 50)\n"
    )

    def write(name):
        return subprocess.run([sys.executable, "-c", code, str(path), name], timeout=120).returncode

    with ThreadPoolExecutor() as pool:
        assert list(pool.map(write, "abc")) == [0, 0, 0]
    found = Store(str(path))
    assert all(found.get(f"{name}({i})") == str(i) * 50 for name in "abc" for i in range(300))


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A JAX that looks installed; the function that changes its version gives the store's file."""
    options = Options()
    options.cache_dir = str(tmp_path / "cache")
    origins = {name: tmp_path / name / "__init__.py" for name in ("jax", "jaxlib", "numpy")}
    for origin in origins.values():
        origin.parent.mkdir()
        (origin.parent / "version.py").write_text("1")
    monkeypatch.setattr(version, "is_library", lambda path: str(tmp_path) in path)

    def spec(name):
        return importlib.machinery.ModuleSpec(name, None, origin=str(origins[name]))

    monkeypatch.setattr("importlib.util.find_spec", spec)
    yield lambda: (store.use(options), store.opened())[1], origins, options
    store.use(_nowhere())


def _nowhere():
    options = Options()
    options.cache_dir = os.devnull
    return options


@pytest.mark.parametrize("package", ["jax", "jaxlib", "numpy"])
def test_another_version_has_another_file(installed, package):
    opened, origins, _ = installed
    before = opened()
    before.put("add(1)", "[2]")
    assert opened().get("add(1)") == "[2]"
    (origins[package].parent / "version.py").write_text("2")
    assert opened().path != before.path and opened().get("add(1)") is None


def test_other_settings_of_jax_have_another_file(installed, monkeypatch):
    opened, _, _ = installed
    before = opened().path
    monkeypatch.setenv("JAX_ENABLE_X64", "1")
    assert opened().path != before


def test_another_source_has_another_file(installed, monkeypatch):
    opened, _, _ = installed
    before = opened().path
    monkeypatch.setattr(store, "SOURCES", {"typedpallas_mypy": ("transfer",)})
    assert opened().path != before


def test_nothing_is_kept_where_mypy_keeps_nothing(installed):
    opened, _, options = installed
    assert opened() is not None
    options.incremental = False
    assert opened() is None
    store.use(_nowhere())
    assert store.opened() is None


def test_a_checkout_of_jax_is_not_trusted(installed, monkeypatch):
    opened, _, _ = installed
    monkeypatch.setattr(version, "is_library", lambda path: False)
    assert opened() is None


def test_the_sources_of_answers_are_all_counted():
    """What an evaluation imports of ours is in the digest; the rest is vocabulary that computes nothing."""
    code = (
        "import ast, pathlib, typedpallas_mypy.evaluation as e\n"
        "tree = ast.parse(pathlib.Path(e.__file__).read_text())\n"
        "print(*{n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and 'typedpallas' in n.module})\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    used = set(done.stdout.split()) - {"typedpallas_mypy", "typedpallas"}
    assert used, done.stderr
    assert used <= {f"{package}.{module}" for package, modules in store.SOURCES.items() for module in modules}


class _Parameter:
    name = "T"


_PARAMETER = _Parameter()
_NAMES = st.sampled_from(["A", "B", "BM"]).map(Size.of)
_SIZES = st.recursive(
    st.one_of(st.integers(0, 300).map(Size.of), _NAMES),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda two: two[0] + two[1]),
        st.tuples(inner, inner).map(lambda two: two[0] * two[1]),
        st.tuples(inner, st.integers(1, 9)).map(lambda two: two[0] // two[1]),
        st.tuples(inner, st.integers(1, 9)).map(lambda two: two[0].cdiv(two[1])),
    ),
    max_leaves=5,
)
_VALUES = st.builds(
    Value,
    st.sampled_from([None, "float32", "bool"]),
    st.none() | st.lists(st.none() | _SIZES, max_size=3).map(tuple),
    weak=st.booleans(),
    parameter=st.sampled_from([None, _PARAMETER]),
)
_OUTCOMES = st.recursive(
    st.one_of(st.none(), _VALUES, st.builds(Refused, st.text(), st.sampled_from(["shape", "dtype"]))),
    lambda inner: st.builds(Several, st.sampled_from(["tuple", "list"]), st.lists(inner, max_size=3).map(tuple)),
    max_leaves=4,
)


@given(_OUTCOMES)
def test_outcomes_survive(outcome):
    text = written.answer(outcome)
    assert "\n" not in text and "\t" not in text
    assert written.read(text, {"T": _PARAMETER}) == outcome


@given(_VALUES, _VALUES)
def test_different_values_are_different_questions(left, right):
    assert (left.text == right.text) == (left == right)
