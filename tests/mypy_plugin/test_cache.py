"""The same answers from a cold cache, a warm one, the daemon and parallel workers; and a stale cache is noticed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import harness
import pytest

from typedpallas_mypy import version

_FILES = ("failing/matmul_broken.py", "failing/accesses.py", "passing/attention.py")

_CHANGING_PLUGIN = """
import os
from typedpallas import rules
from typedpallas_mypy import report, version

version.source_hash = lambda: os.environ["SOURCE_HASH"]
if os.environ["RULES"] == "none":
    rules.judging = lambda event: ()

from typedpallas_mypy.plugin import plugin
"""


def _errors(done):
    return sorted({(m.file, m.line, m.code) for m in harness.messages(done.stdout) if m.kind == "error"})


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cached")
    return [shutil.copy(harness.CASES / name, folder) for name in _FILES]


@pytest.fixture(scope="module")
def first(files):
    errors = _errors(harness.mypy(files))
    assert len(errors) > 20
    return errors


def test_warm(files, first):
    assert _errors(harness.mypy(files)) == first


def test_json_cache(files, first):
    cache = harness.CACHE / "json"
    assert _errors(harness.mypy(["--no-fixed-format-cache", *files], cache=cache)) == first
    assert _errors(harness.mypy(["--no-fixed-format-cache", *files], cache=cache)) == first


def test_types_survive_the_cache(tmp_path, checked):
    """A helper that is read from the cache still has its dims (texts of different lengths: mypy looks at that)."""
    (tmp_path / "helper.py").write_text(
        "from typing import Literal as L\nfrom typedpallas import Block, Mul, Multiple, f32\n"
        "def half[A: Multiple[L[8]]](x: Block[f32, Mul[L[2], A]]) -> Block[f32, A]: raise NotImplementedError\n"
    )
    use = tmp_path / "use.py"
    for size, errors in ((256, []), (1000, [("use.py", 4, "not-a-multiple")]), (16, [])):
        use.write_text(
            "from typing import Literal as L, reveal_type\nfrom typedpallas import Block, f32\n"
            "from helper import half\n"
            f"def f(x: Block[f32, L[{size}]]) -> None: reveal_type(half(x))\n"
        )
        done = harness.mypy([use], cwd=tmp_path, cache=harness.CACHE)
        assert _errors(done) == errors, done.stdout
        assert f"Literal[{size // 2}]" in done.stdout


def test_workers(files, first):
    done = harness.mypy(["--num-workers", "2", *files], cache=harness.CACHE / "workers")
    assert _errors(done) == first, done.stdout + done.stderr


def test_daemon(files, first, tmp_path):
    base = [sys.executable, "-m", "mypy.dmypy", "--status-file", str(tmp_path / "status.json")]
    flags = ["--config-file", str(harness.CONFIG), "--cache-dir", str(harness.CACHE)]
    command = [*base, "run", "--timeout", "60", "--", *flags, *map(str, files)]
    try:
        for _ in range(2):
            done = subprocess.run(command, capture_output=True, text=True, cwd=harness.HERE, timeout=200)
            assert _errors(done) == first, done.stdout + done.stderr
    finally:
        subprocess.run([*base, "stop"], capture_output=True, timeout=60)


def test_a_daemon_starts_anew_with_another_plugin_or_other_targets(tmp_path):
    plugin = tmp_path / "lib" / "typedpallas_mypy"
    shutil.copytree(Path(version.__file__).parent, plugin, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "mypy.ini").write_text("[mypy]\nplugins = typedpallas_mypy\n")
    (tmp_path / "plain.py").write_text("x: int = 1\n")
    base = [sys.executable, "-m", "mypy.dmypy", "--status-file", str(tmp_path / "status.json")]
    command = [*base, "run", "--timeout", "60", "--", "--cache-dir", str(tmp_path / "cache"), "plain.py"]

    def restarted():
        env = {**os.environ, "PYTHONPATH": str(plugin.parent)}
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=env, timeout=200)
        assert "Success" in done.stdout, done.stdout + done.stderr
        return "Restarting: plugins changed" in done.stdout + done.stderr

    try:
        assert not restarted() and not restarted()
        with open(plugin / "names.py", "a") as file:
            file.write("# another\n")
        assert restarted() and not restarted()
        (tmp_path / "pyproject.toml").write_text('[tool.typedpallas]\ntargets = ["tpu-v5e"]\n')
        assert restarted() and not restarted()
    finally:
        subprocess.run([*base, "stop"], capture_output=True, timeout=60, cwd=tmp_path)


def test_changed_rules_are_noticed():
    """New rules with a new source hash re-check a file; with the old hash (the control) they would not."""
    folder = harness.CACHE / "changing"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "changing_plugin.py").write_text(_CHANGING_PLUGIN)
    (folder / "mypy.ini").write_text("[mypy]\nplugins = changing_plugin.py\nallow_redefinition = True\n")
    kernel = folder / "kernel.py"
    kernel.write_text((harness.CASES / "failing" / "matmul_broken.py").read_text())

    def errors(rules, source_hash):
        environment = {"RULES": rules, "SOURCE_HASH": source_hash}
        flags = {"config": folder / "mypy.ini", "cache": folder / "cache", "cwd": folder}
        return len(_errors(harness.mypy([kernel], environment=environment, **flags)))

    assert errors("none", "a") == 0
    assert errors("all", "a") == 0
    assert errors("all", "b") > 3


_IMPORTED = """
import sys
from typedpallas import rules
from typedpallas_mypy import plugin
rules.all_rules()
for name, module in sys.modules.items():
    if name.startswith("typedpallas") and module.__file__:
        print(module.__file__)
"""


def test_the_source_hash_counts_all_that_decides():
    """Every module of ours that a run of mypy imports, and the tables beside the rules."""
    done = subprocess.run([sys.executable, "-c", _IMPORTED], capture_output=True, text=True, timeout=60)
    imported = done.stdout.split()
    assert len(imported) > 100, done.stderr
    counted = set(version.files())
    assert set(imported) <= counted
    assert {"refused_operations.tsv", "tpu-v5e.toml"} <= {Path(path).name for path in counted}


_JUDGED = """
import sys
from typedpallas import rules
from mypy import api
output, errors, status = api.run(sys.argv[1:])
print(output, errors)
print("imported:", *sorted(name for name in sys.modules if name.startswith("typedpallas.rules.")))
"""


def test_only_rules_that_judge_something_are_imported(tmp_path):
    """The second run knows which rules there are from the first; it says the same with fewer of them."""
    source = (harness.CASES / "failing" / "matmul_broken.py").read_text()
    said, imported = [], []
    for turn in range(2):
        (tmp_path / "kernel.py").write_text(source + f"\n_{turn} = 0\n")
        command = [sys.executable, "-c", _JUDGED, "--config-file", harness.CONFIG, "--cache-dir", harness.CACHE]
        flags = ["kernel.py"]
        done = subprocess.run([*map(str, command), *flags], capture_output=True, text=True, cwd=tmp_path, timeout=300)
        messages, _, names = done.stdout.partition("imported: ")
        said.append(messages)
        imported.append(names.split())
    assert said[0] == said[1] and "shape-mismatch" in said[0]
    assert "typedpallas.rules.shape_mismatch" in imported[1] and "typedpallas.rules.tma_box" not in imported[1]
