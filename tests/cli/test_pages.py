"""``rules``, ``explain`` and ``targets``, and what is said to names that do not exist."""

import json

import pytest

from typedpallas import chips, rules
from typedpallas.cli import targets
from typedpallas.cli.names import UsageError


def test_rules_lists_every_rule(cli) -> None:
    ran = cli("rules")
    assert ran.code == 0
    listed = {line.split()[0] for line in ran.out.splitlines() if line.strip() and line[0] != " "}
    assert set(rules.all_rules()) <= listed


def test_rules_for_tools(cli) -> None:
    found = json.loads(cli("rules", "--format", "json").out)
    assert [item["rule"] for item in found] == list(rules.all_rules())
    assert all(item["what"] and item["message"] and item["levels"] for item in found)


@pytest.mark.parametrize("slug", list(rules.all_rules()))
def test_explain_has_what_one_needs(cli, slug: str) -> None:
    rule = rules.by_slug(slug)
    ran = cli("explain", slug)
    assert ran.code == 0
    assert ran.out.startswith(slug)
    for line in rule.example.bad.strip().splitlines():
        assert line in ran.out
    added = set(rule.example.good.splitlines()) - set(rule.example.bad.splitlines())
    assert all(line in ran.out for line in added)
    assert all(target in ran.out for target in rule.example.targets)


def test_explain_takes_the_slug_as_errors_print_it(cli) -> None:
    assert cli("explain", "[load-from-hbm]").code == 0


def test_an_unknown_rule_names_the_nearest(cli) -> None:
    ran = cli("explain", "load-from-hb")
    assert (ran.code, ran.out) == (2, "")
    assert "unknown rule `load-from-hb`" in ran.err
    assert "`load-from-hbm`" in ran.err


def test_targets_lists_every_chip(cli) -> None:
    ran = cli("targets")
    assert [line.split()[0] for line in ran.out.splitlines()[1:]] == list(chips.targets())
    assert [item["name"] for item in json.loads(cli("targets", "--format", "json").out)] == list(chips.targets())


def test_target_names() -> None:
    assert targets.named("h100, v5e,h100") == ("h100", "tpu-v5e")
    assert targets.named("all") == chips.targets()
    assert set(targets.named("tpu")) | set(targets.named("gpu")) == set(chips.targets())
    with pytest.raises(UsageError, match=r"did you mean .*`tpu-v5e`"):
        targets.named("tpu-v5")


def test_targets_of_the_project(tmp_path) -> None:
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    file = tmp_path / "pyproject.toml"
    file.write_text("[tool.typedpallas]\ntargets = ['v4', 'h100']\n")
    assert targets.configured(below) == ("tpu-v4", "h100")
    file.write_text("[tool.typedpallas]\ntargets = ['h10']\n")
    with pytest.raises(UsageError, match="did you mean `h100`"):
        targets.configured(below)
    file.write_text("[tool.typedpallas]\ntargets = 'h100'\n")
    with pytest.raises(UsageError, match="is a list of names"):
        targets.configured(below)
    file.write_text("[tool")
    with pytest.raises(UsageError, match="pyproject"):
        targets.configured(below)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["chekc"], "unknown command `chekc`: did you mean `check`?"),
        (
            ["lower", "x.py", "--target", "h100", "--stage", "kernal"],
            "unknown stage `kernal`: did you mean `kernel`?",
        ),
        (["check", "x.py", "--format", "jsn"], "unknown format `jsn`: did you mean `json`?"),
        (["check", "x.py", "--backend", "mosaic"], "unknown backend `mosaic`: did you mean `mosaic_"),
        (["check"], "the following arguments are required: WHAT"),
        (["check", "x.py", "--tarhet", "h100"], "unrecognized arguments: --tarhet"),
    ],
)
def test_a_command_line_that_means_nothing(cli, arguments: list[str], said: str) -> None:
    ran = cli(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert "Traceback" not in ran.err


def test_help_tells_the_exit_codes(cli) -> None:
    ran = cli("--help")
    assert ran.code == 0
    assert "0 clean, 1 refuted, 2 the command cannot be carried out" in ran.out
    assert cli().code == 2
