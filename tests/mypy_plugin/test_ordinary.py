"""Code without typedpallas: the plugin changes nothing, even where typedpallas is used elsewhere in the run."""

import shutil
from pathlib import Path

import harness
import jax
import pytest

OPS = Path(jax.__file__).parent / "experimental" / "pallas" / "ops"
SAMPLE = ("tpu/flash_attention.py", "tpu/matmul.py", "gpu/softmax.py", "gpu/layer_norm.py")


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """What mypy says with the plugin and without, of the same files."""
    folder = tmp_path_factory.mktemp("ordinary")
    files = [shutil.copy(harness.HERE / "ordinary.py", folder)]
    for name in SAMPLE:
        copied = folder / ("jax_" + Path(name).name)
        shutil.copy(OPS / name, copied)
        files.append(copied)
    kernel = harness.CASES / "passing" / "matmul.py"
    answers = []
    for plugin in ("plugins = typedpallas_mypy", ""):
        config = folder / "mypy.ini"
        config.write_text(f"[mypy]\n{plugin}\ncheck_untyped_defs = True\n")
        cache = harness.CACHE / ("with" if plugin else "without")
        done = harness.mypy([*files, kernel], config=config, cache=cache, cwd=folder)
        answers.append([m for m in harness.messages(done.stdout) if m.file != "matmul.py"])
    return answers


def test_nothing_changes(both):
    with_plugin, without = both
    assert [m.text for m in without if m.file == "ordinary.py"], "the file is there to be complained about"
    assert with_plugin == without
