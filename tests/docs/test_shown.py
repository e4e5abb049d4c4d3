"""The docs say what is true: their files are written, their snippets run, their commands print what they show."""

import contextlib
import io
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from snippets import Block, blocks, comparable

from typedpallas.cli import main

ROOT = Path(__file__).resolve().parents[2]
_SVG = "{http://www.w3.org/2000/svg}"
PAGES = [ROOT / "README.md", ROOT / "docs" / "tutorial.md"]


def printed(words: list[str]) -> str:
    """What a command of a page prints."""
    program, *arguments = words
    if program == "mypy":
        done = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, check=False)
        return done.stdout + done.stderr
    assert program == "typedpallas", f"the tests know no command `{program}`"
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        main(arguments)
    return out.getvalue()


def _words_in(picture: Path) -> list[str]:
    """What a picture says; its lines may differ a little from one version of the painter to the next."""
    return ["".join(text.itertext()) for text in ElementTree.parse(picture).iter(f"{_SVG}text")]


@pytest.fixture(scope="module")
def mypy_cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One cache for all pages: mypy reads JAX once."""
    return str(tmp_path_factory.mktemp("mypy"))


def _needs(words: list[str]) -> None:
    """Skip where a command needs a vendor's compiler that is not installed."""
    if "--compile" in words or words[:2] == ["typedpallas", "compile"]:
        pytest.importorskip("libtpu", reason='pip install "typedpallas[tpu]"')
        pytest.importorskip("jax_cuda13_plugin", reason='pip install "typedpallas[gpu]"')


@pytest.mark.compiler
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_is_true(page: Path, mypy_cache: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = blocks(page)
    assert any(block.language == "python" for block in found)
    monkeypatch.setenv("MYPY_CACHE_DIR", mypy_cache)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    names: dict[str, object] = {"__name__": "page"}
    for block in found:
        if block.file:
            (tmp_path / block.file).write_text(block.text)
        elif block.language == "python":
            exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), names)
        elif block.language == "console":
            _compare(block, page)
    for picture in tmp_path.glob("*.svg"):
        assert _words_in(picture) == _words_in(ROOT / "docs" / "pictures" / picture.name)


def _compare(block: Block, page: Path) -> None:
    for line, words, output in block.commands if block.known else []:
        _needs(words)
        found = comparable(printed(words))
        assert found == comparable(output), f"{page.name}, line {block.line}: `{line}` prints\n{found}"
