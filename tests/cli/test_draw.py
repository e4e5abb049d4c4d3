"""``typedpallas draw``."""

import shutil
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _in_a_folder_with_the_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("kernels.py", "launches.py"):
        shutil.copy(Path(__file__).with_name(name), tmp_path)
    monkeypatch.chdir(tmp_path)


def test_a_picture_is_written(cli, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason='pip install "typedpallas[draw]"')
    ran = cli("draw", "kernels.py:from_vmem", "--args", "f32[32,128]", "--target", "tpu-v5e", "--output", "it.svg")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == "it.svg: `_triple`\n"
    assert "_triple on tpu-v5e" in (tmp_path / "it.svg").read_text()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--output", "it.gif"), "--output: a picture is one of .svg, .png, .pdf; found `it.gif`"),
        (("--output", "no/it.svg"), "--output: there is no folder `no`"),
        (("--target", "tpu-v5"), "tpu-v5"),
        (("--args", "f32[32"), "f32[32"),
    ],
)
def test_what_means_nothing_is_said(cli, options: tuple[str, ...], said: str) -> None:
    ran = cli("draw", "kernels.py:from_vmem", "--args", "f32[32,128]", *options)
    assert ran.code == 2 and said in ran.err
