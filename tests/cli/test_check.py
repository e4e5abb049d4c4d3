"""``typedpallas check``: what is picked, what is printed, how it exits."""

import json
import shutil
from pathlib import Path

import pytest

from typedpallas.cli import check, terminal
from typedpallas.cli.asking import Answer
from typedpallas.cli.loading import Picked
from typedpallas.diagnostics import Diagnostic

KERNELS = Path(__file__).with_name("kernels.py")
AVALS = "f32[32,128]"


@pytest.fixture(autouse=True)
def _in_a_folder_with_the_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(KERNELS, tmp_path)
    monkeypatch.chdir(tmp_path)


def line_of(text: str) -> int:
    return next(i for i, line in enumerate(KERNELS.read_text().splitlines(), 1) if text in line)


def test_a_clean_function(cli) -> None:
    ran = cli("check", "kernels.py:from_vmem", "--args", AVALS, "--target", "tpu-v5e,tpu-v6e")
    assert (ran.code, ran.err) == (0, "")
    rows = [line.split() for line in ran.out.splitlines() if line.startswith("_triple")]
    assert rows == [["_triple", "tpu-v5e", "fits"], ["_triple", "tpu-v6e", "fits"]]


def test_a_refuted_function_shows_the_line(cli) -> None:
    ran = cli("check", "kernels.py:from_hbm", "--args", AVALS, "--target", "tpu-v5e,tpu-v6e")
    assert ran.code == 1
    number = line_of("out[...] = table")
    lines = ran.out.splitlines()
    assert lines[0].startswith(f"kernels.py:{number}:16: error: cannot load from `table` in `tpu.HBM`")
    assert lines[0].endswith("[load-from-hbm]")
    source, carets = lines[1], lines[2]
    assert "out[...] = table[pl.ds(8, 8), :] * 3.0" in source
    start, end = carets.index("^"), carets.rindex("^") + 1
    assert source[start:end] == "table[pl.ds(8, 8), :]"
    assert any(line.strip().startswith("= help: copy") for line in lines)
    assert "1 error" in lines
    assert ran.out.count("error: cannot load") == 1
    assert "typedpallas explain load-from-hbm" in ran.out


def test_json(cli) -> None:
    ran = cli("check", "kernels.py:from_hbm", "--args", AVALS, "--target", "tpu-v5e,v4", "--format", "json")
    assert ran.code == 1
    answer = json.loads(ran.out)
    assert (answer["function"], answer["ok"]) == ("from_hbm", False)
    assert [item["target"] for item in answer["targets"]] == ["tpu-v5e", "tpu-v4"]
    first = answer["targets"][0]
    assert (first["verdict"], first["kernels"], first["compiler"]) == ("refuted", ["_triple"], None)
    diagnostic = Diagnostic(**{**first["diagnostics"][0], "notes": tuple(first["diagnostics"][0]["notes"])})
    assert (diagnostic.rule, diagnostic.verdict, diagnostic.level) == ("load-from-hbm", "refuted", "trace")
    assert diagnostic.line == line_of("out[...] = table")


def test_sarif_and_github(cli) -> None:
    arguments = ("check", "kernels.py:from_hbm", "--args", AVALS, "--target", "tpu-v5e")
    sarif = json.loads(cli(*arguments, "--format", "sarif").out)
    assert sarif["version"] == "2.1.0"
    assert [result["ruleId"] for result in sarif["runs"][0]["results"]] == ["load-from-hbm"]
    github = cli(*arguments, "--format", "github").out
    assert github.startswith("::error file=") and "title=load-from-hbm::" in github


def test_no_target_asks_what_holds_everywhere_or_the_project(cli, tmp_path: Path) -> None:
    assert "every chip" in cli("check", "kernels.py:from_vmem", "--args", AVALS).out
    (tmp_path / "pyproject.toml").write_text("[tool.typedpallas]\ntargets = ['tpu-v4']\n")
    assert "tpu-v4" in cli("check", "kernels.py:from_vmem", "--args", AVALS).out


def test_a_function_without_a_kernel_says_so(cli) -> None:
    ran = cli("check", "kernels.py:no_kernel", "--args", AVALS)
    assert ran.code == 0
    assert "`no_kernel` launches no kernel" in ran.out


def test_a_module_is_as_good_as_a_file(cli, tmp_path: Path) -> None:
    shutil.copy(KERNELS, tmp_path / "kernels_as_a_module.py")
    assert cli("check", "kernels_as_a_module:from_vmem", "--args", AVALS).code == 0


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("kernels.py:from_hmb", "unknown function `from_hmb`: did you mean `from_hbm`"),
        ("kernels.py:NOT_A_FUNCTION", "is no function: found int"),
        ("kernel.py:f", "no file `kernel.py`: did you mean `kernels.py`?"),
        ("there/is/none.py", "there is no folder"),
        ("no_such_module", "no module `no_such_module`"),
        (":f", "expected FILE_OR_MODULE"),
    ],
)
def test_what_cannot_be_found(cli, what: str, said: str) -> None:
    ran = cli("check", what, "--args", AVALS)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


def test_several_functions_are_listed(cli) -> None:
    ran = cli("check", "kernels.py", "--args", AVALS)
    assert ran.code == 2
    assert "has 5 functions: say which" in ran.err
    assert "kernels.py:from_hbm(table)" in ran.err
    assert "_triple" not in ran.err


def test_a_function_that_raises_shows_its_own_frames(cli) -> None:
    ran = cli("check", "kernels.py:raises", "--args", AVALS)
    assert (ran.code, ran.out) == (2, "")
    assert "RuntimeError: my own mistake with (32, 128)" in ran.err
    assert f"line {line_of('my own mistake')}, in raises" in ran.err
    assert "site-packages" not in ran.err and "JAX_TRACEBACK_FILTERING" not in ran.err


def test_arguments_that_are_missing_are_asked_for(cli) -> None:
    ran = cli("check", "kernels.py:from_vmem")
    assert ran.code == 2
    assert "give the arguments with --args" in ran.err


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("x = (\n", "SyntaxError"),
        ("import no_such_thing\n", "No module named 'no_such_thing'"),
        ("raise SystemExit(3)\n", "SystemExit: 3"),
    ],
)
def test_a_file_that_cannot_be_imported(cli, tmp_path: Path, source: str, said: str) -> None:
    (tmp_path / "broken_file.py").write_text(source)
    ran = cli("check", "broken_file.py", "--args", AVALS)
    assert (ran.code, ran.out) == (2, "")
    assert "importing `broken_file.py` failed" in ran.err
    assert said in ran.err
    assert "importlib" not in ran.err


def test_blocks_are_for_launches(cli) -> None:
    ran = cli("check", "kernels.py:from_vmem", "--args", AVALS, "--blocks", "BM=8")
    assert ran.code == 2
    assert "is no launch" in ran.err


def test_compile_needs_targets(cli) -> None:
    ran = cli("check", "kernels.py:from_vmem", "--args", AVALS, "--compile")
    assert ran.code == 2
    assert "--target" in ran.err


@pytest.mark.parametrize(
    ("rule", "verdict", "kind", "left"),
    [
        ("load-from-hbm", "open", "", "fits"),
        ("load-from-hbm", "open", "refused", "open"),
        ("load-from-hbm", "refuted", "", "refuted"),
        ("write-race", "open", "", "open"),
    ],
)
def test_a_compiler_settles_what_is_its_own_to_refuse(rule: str, verdict: str, kind: str, left: str) -> None:
    diagnostic = Diagnostic(
        rule=rule, verdict=verdict, level="trace", target="h100", file="f", line=1, column=1, message="m"
    )
    item = check._answered(check.OnTarget("h100", (diagnostic,), ("k",)), Answer(target="h100", kind=kind))
    assert item.verdict == left
    assert len(item.diagnostics) + len(item.settled) == 1


def test_a_false_alarm_is_said_out_loud() -> None:
    diagnostic = Diagnostic(
        rule="load-from-hbm", verdict="refuted", level="trace", target="h100", file="f", line=1, column=1, message="m"
    )
    item = check.OnTarget("h100", (diagnostic,), ("k",), Answer(target="h100"))
    lines = check.summary(terminal.screen(folded=True), Picked("k", print, False), [item])
    assert any("takes: a bug of typedpallas, please report it" in line for line in lines)


@pytest.mark.compiler
def test_the_compilers_verdict_stands_beside_ours(cli) -> None:
    pytest.importorskip("libtpu", reason='pip install "typedpallas[tpu]"')
    bad = cli("check", "kernels.py:from_hbm", "--args", AVALS, "--target", "tpu-v5e", "--compile")
    assert bad.code == 1
    assert "refuted [load-from-hbm]  refused: Loads are only allowed on VMEM and SMEM references" in bad.out
    good = cli("check", "kernels.py:from_vmem", "--args", AVALS, "--target", "tpu-v5e", "--compile")
    assert good.code == 0
    assert "fits   compiled, " in good.out
