"""The command line on a typed launch: it is picked by itself, blocks are bound, mistakes have its line."""

import json
import shutil
from pathlib import Path

import pytest

LAUNCHES = Path(__file__).with_name("launches.py")
AVALS = ("--args", "f32[1024,256]")
LINE = next(i for i, line in enumerate(LAUNCHES.read_text().splitlines(), 1) if line.startswith("relu ="))


@pytest.fixture(autouse=True)
def _in_a_folder_with_the_launches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(LAUNCHES, tmp_path)
    monkeypatch.chdir(tmp_path)


def test_the_only_launch_is_picked(cli) -> None:
    ran = cli("check", "launches.py", *AVALS, "--blocks", "BM=256", "--target", "tpu-v5e")
    assert (ran.code, ran.err) == (0, "")
    assert ["relu_kernel", "tpu-v5e", "fits"] in [line.split() for line in ran.out.splitlines()]


def test_a_kernel_is_no_function_to_check(cli) -> None:
    ran = cli("check", "launches.py:relu_kernel", *AVALS)
    assert ran.code == 2
    assert "is a kernel, which runs on blocks" in ran.err


def test_a_missing_block_size_has_the_launchs_line(cli) -> None:
    ran = cli("check", "launches.py", *AVALS, "--target", "tpu-v5e", "--format", "json")
    assert ran.code == 1
    (found,) = json.loads(ran.out)["targets"][0]["diagnostics"]
    assert (found["rule"], found["line"]) == ("missing-size", LINE)
    assert Path(found["file"]).name == "launches.py"


def test_arrays_that_do_not_fit_are_refused(cli) -> None:
    ran = cli("check", "launches.py", "--args", "bf16[1024,256]", "--blocks", "BM=256", "--target", "tpu-v5e")
    assert ran.code == 1
    assert f"launches.py:{LINE}: error: `x` of `relu_kernel`: expected an array of f32, found bf16" in ran.out
    assert "1 error" in ran.out


def test_an_unknown_block_size_names_the_nearest(cli) -> None:
    ran = cli("check", "launches.py", *AVALS, "--blocks", "BMM=256")
    assert ran.code == 2
    assert "unknown size `BMM`: did you mean `BM`?" in ran.err


def test_lower_says_what_is_missing(cli) -> None:
    ran = cli("lower", "launches.py", *AVALS, "--target", "tpu-v5e")
    assert (ran.code, ran.out) == (1, "")
    assert f"launches.py:{LINE}: error: nothing gives `relu_kernel` the size of `BM`" in ran.err
    ran = cli("lower", "launches.py", *AVALS, "--target", "tpu-v5e", "--blocks", "BM=256")
    assert (ran.code, ran.err) == (0, "")
    assert "memref<256x256xf32, #tpu.memory_space<vmem>>" in ran.out


@pytest.mark.parametrize(
    ("pattern", "code", "said"),
    [
        ("(i BM) N, N -> (i BM) N", 1, "error: `relu_kernel` and the pattern disagree on the number of inputs"),
        ("(i BM N -> (i BM) N", 2, "this group is not closed"),
    ],
)
def test_a_launch_that_cannot_be_made(cli, tmp_path: Path, pattern: str, code: int, said: str) -> None:
    file = tmp_path / "wrong.py"
    file.write_text(f'from launches import *\nwrong = tp.launch(relu_kernel, "{pattern}", grid="i")\n')
    ran = cli("check", "wrong.py", *AVALS)
    assert ran.code == code
    assert "wrong.py:2: " in ran.err and said in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.compiler
def test_the_compiler_is_asked_about_a_launch_that_the_rules_refuse(cli, tmp_path: Path) -> None:
    pytest.importorskip("libtpu", reason='pip install "typedpallas[tpu]"')
    ran = cli(
        *("check", "launches.py", "--args", "f32[65536,1024]", "--blocks", "BM=16384"),
        *("--target", "tpu-v4,tpu-v5e", "--compile", "--format", "json"),
    )
    assert ran.code == 1
    for target in json.loads(ran.out)["targets"]:
        assert (target["verdict"], target["compiler"]["verdict"]) == ("refuted", "refused")
        assert {item["rule"] for item in target["diagnostics"]} == {"vmem-overflow"}
