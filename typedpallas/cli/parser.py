"""The commands and their options. What a command does is imported only when it runs."""

import argparse
import importlib
from collections.abc import Callable, Sequence
from typing import NoReturn

from typedpallas import __version__
from typedpallas.cli.names import UsageError, nearest

FORMATS = ("text", "json", "github", "sarif")
STAGES = ("jaxpr", "stablehlo", "kernel", "ptx")
BACKENDS = ("mosaic_tpu", "mosaic_gpu", "triton")

_WHAT = """\
FILE_OR_MODULE[:FUNCTION]; FUNCTION may be left out where the file has one launch or one function"""
_ARGS = """\
the arguments' element types and shapes, such as "bf16[1024,1024], i32[]\""""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}\n{self.format_usage().strip()}")


def _one_of(kind: str, known: Sequence[str]) -> Callable[[str], str]:
    def convert(word: str) -> str:
        if word not in known:
            raise nearest(word, known, kind)
        return word

    return convert


def _later(module: str) -> Callable[[argparse.Namespace], int]:
    def run(options: argparse.Namespace) -> int:
        code: int = importlib.import_module(f"typedpallas.cli.{module}").run(options)
        return code

    return run


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of a command; ``run`` carries it out and returns the exit code.

    Raises:
        UsageError: the command line means nothing.
    """
    parser = _parser()
    first = next((word for word in arguments if not word.startswith("-")), None)
    if first is not None and first not in _COMMANDS:
        raise nearest(first, _COMMANDS, "command")
    if not arguments:
        parser.print_help()
        raise SystemExit(2)
    return parser.parse_args(list(arguments))


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="typedpallas",
        description="Typed Pallas kernels: placement mistakes become errors at the line you wrote.",
        epilog="exit codes: 0 clean, 1 refuted, 2 the command cannot be carried out",
    )
    parser.add_argument("--version", action="version", version=f"typedpallas {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=_Parser)
    for name, (summary, build) in _COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        build(command)
    return parser


def _demo(command: argparse.ArgumentParser) -> None:
    command.add_argument("--workers", type=int, default=2, metavar="N", help="compilers at a time (default: 2)")
    command.set_defaults(run=_later("demo"))


def _function(command: argparse.ArgumentParser) -> None:
    command.add_argument("what", metavar="WHAT", help=_WHAT)
    command.add_argument("--args", default="", metavar="AVALS", help=_ARGS)
    command.add_argument("--blocks", default="", metavar="SIZES", help="block sizes of a launch: BM=512,BK=512")
    command.add_argument(
        "--backend", type=_one_of("backend", BACKENDS), metavar="BACKEND", help=f"of a launch: {', '.join(BACKENDS)}"
    )


def _format(command: argparse.ArgumentParser, formats: Sequence[str] = FORMATS) -> None:
    command.add_argument(
        "--format",
        type=_one_of("format", formats),
        default="text",
        metavar="FORMAT",
        help=f"{', '.join(formats)} (default: text)",
    )


def _check(command: argparse.ArgumentParser) -> None:
    _function(command)
    command.add_argument(
        "--target",
        default="",
        metavar="T,T",
        help="chips to check for, `all`, `tpu` or `gpu`; without it, `targets` of [tool.typedpallas] in "
        "pyproject.toml, or else only what holds on every chip",
    )
    command.add_argument("--compile", action="store_true", help="ask the vendors' compilers too")
    command.add_argument(
        "--level",
        choices=("types", "trace"),
        default="trace",
        help="types: mypy with the plugin on a file or a folder, for all sizes; trace: one function, for these "
        "arguments (default: trace)",
    )
    command.add_argument(
        "--show-open", action="store_true", help="with --level types: list what types could say and do not, too"
    )
    _format(command)
    command.set_defaults(run=_later("check"))


def _compile(command: argparse.ArgumentParser) -> None:
    _function(command)
    command.add_argument("--target", required=True, metavar="T,T", help="chips to compile for, `all`, `tpu` or `gpu`")
    command.add_argument(
        "--deadline",
        type=float,
        default=120.0,
        metavar="SECONDS",
        help="give a compiler up after this (default: 120)",
    )
    _format(command, ("text", "json"))
    command.set_defaults(run=_later("compiling"))


def _lower(command: argparse.ArgumentParser) -> None:
    _function(command)
    command.add_argument("--target", required=True, metavar="T", help="the chip to lower for")
    command.add_argument(
        "--stage",
        type=_one_of("stage", STAGES),
        default="kernel",
        metavar="STAGE",
        help=f"{', '.join(STAGES)} (default: kernel)",
    )
    command.set_defaults(run=_later("lowering"))


def _draw(command: argparse.ArgumentParser) -> None:
    _function(command)
    command.add_argument("--target", default="", metavar="T", help="the chip whose memory is shown")
    command.add_argument(
        "--output", default="kernels.svg", metavar="FILE", help="a .svg, .png or .pdf (default: kernels.svg)"
    )
    command.set_defaults(run=_later("drawing"))


def _explain(command: argparse.ArgumentParser) -> None:
    command.add_argument("rule", metavar="RULE", help="the slug in brackets at the end of an error")
    command.set_defaults(run=_later("explain"))


def _rules(command: argparse.ArgumentParser) -> None:
    _format(command, ("text", "json"))
    command.set_defaults(run=_later("rules"))


def _targets(command: argparse.ArgumentParser) -> None:
    _format(command, ("text", "json"))
    command.set_defaults(run=_later("targets"))


_COMMANDS: dict[str, tuple[str, Callable[[argparse.ArgumentParser], None]]] = {
    "demo": ("show it all: mypy on broken kernels, a table of kernels by chip, kernels run here", _demo),
    "check": ("check a function's kernels, for chips that need not be here", _check),
    "compile": ("compile a function with the vendors' compilers, for chips that need not be here", _compile),
    "lower": ("print what a function's kernels become on a chip", _lower),
    "draw": ("paint what a function's kernels do: blocks, steps, memory", _draw),
    "explain": ("explain a rule: what, why, where, a refused kernel and its fix", _explain),
    "rules": ("list the rules", _rules),
    "targets": ("list the chips", _targets),
}
