"""The function that the user names: its file imported, the function picked, their tracebacks trimmed."""

import ast
import functools
import importlib
import importlib.util
import inspect
import os
import site
import sys
import sysconfig
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from typedpallas.cli import terminal
from typedpallas.cli.names import UsageError, nearest
from typedpallas.diagnostics import Diagnostic, PlacementError

_HERE = "launch"
"""The name of the frame that stands for a launch's line."""
_PACKAGE = str(Path(__file__).resolve().parent.parent)
_FOREIGN = tuple(
    {*(str(Path(p).resolve()) for p in site.getsitepackages()), str(Path(sysconfig.get_path("stdlib")).resolve())}
)


@dataclass(frozen=True)
class Picked:
    """A function to check: ``name`` as messages write it."""

    name: str
    function: Callable[..., Any]
    is_launch: bool
    place: tuple[str, int] = ("", 0)
    """File and line where a launch is made; a mistake in its arguments has no other line of the user's."""

    @property
    def kernel(self) -> str:
        """What a table calls it where no kernel was seen: a launch's kernel, or the function."""
        launch: Any = self.function
        return str(launch.__name__) if self.is_launch else self.name

    def placed(self, found: Sequence[Diagnostic]) -> tuple[Diagnostic, ...]:
        """What was found, at the launch's place where it has no line of the user's."""
        file, line = self.place
        if not file:
            return tuple(found)
        return tuple(
            item if self._has_place(item) else replace(item, file=file, line=line, column=0) for item in found
        )

    def _has_place(self, item: Diagnostic) -> bool:
        """Whether a line is the user's; below a launch that this package brings, the package's own lines are."""
        return item.file.startswith(_PACKAGE) or (not self.place[0].startswith(_PACKAGE) and _is_users(item.file))

    def here[T](self, work: Callable[[], T]) -> T:
        """The result of ``work``, called from a frame at the launch's place: errors then point there."""
        file, line = self.place
        if not file:
            return work()
        names: dict[str, Any] = {}
        exec(compile("\n" * (line - 1) + f"def {_HERE}(work): return work()", file, "exec"), names)
        result: T = names[_HERE](work)
        return result

    @property
    def callable(self) -> Callable[..., Any]:
        """The function, its frame at the launch's place."""
        if not self.place[0]:
            return self.function
        return lambda *arrays: self.here(lambda: self.function(*arrays))

    def bound(self, blocks: Mapping[str, int], backend: str | None) -> "Picked":
        """The launch with these block sizes and this backend.

        Raises:
            UsageError: it is no launch, or has no such size.
        """
        if not blocks and backend is None:
            return self
        if not self.is_launch:
            option = "--blocks" if blocks else "--backend"
            raise UsageError(f"{option}: `{self.name}` is no launch; that is its own business")
        launch: Any = self.function
        for name in blocks:
            if name not in launch.signature.names:
                raise UsageError(f"--blocks: {nearest(name, launch.signature.names, 'size')}")
        bound = launch.bind(**blocks)
        return replace(self, function=bound if backend is None else replace(bound, backend=backend))


def without_accelerator() -> None:
    """Keep JAX off this machine's accelerators: checking and lowering need a CPU alone."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")


def load(what: str) -> Picked:
    """Import ``FILE_OR_MODULE[:FUNCTION]`` and pick the function.

    Raises:
        UsageError: there is no such file, module or function, several could be meant, or importing it raised.
    """
    place, _, name = what.partition(":")
    module = _imported(place)
    if name:
        return _named(module, name, place)
    found = _candidates(module)
    launches = [picked for picked in found if picked.is_launch]
    choice = launches if launches else found
    if len(choice) == 1:
        return choice[0]
    if not found:
        raise UsageError(f"`{place}` defines no function; expected a launch or a function that calls one")
    listed = "\n".join(f"  {place}:{picked.name}{_signature(picked.function)}" for picked in choice)
    raise UsageError(f"`{place}` has {len(choice)} {'launches' if launches else 'functions'}: say which\n{listed}")


def _imported(place: str) -> ModuleType:
    without_accelerator()
    file = Path(place)
    if file.is_file():
        return guarded(lambda: _from_file(file), f"importing `{place}` failed")
    if file.suffix == ".py" or os.sep in place:
        raise UsageError(f"no file `{place}`" + _near_file(file))
    if not place:
        raise UsageError("expected FILE_OR_MODULE[:FUNCTION], found no file or module")
    sys.path.insert(0, str(Path.cwd()))
    try:
        if importlib.util.find_spec(place) is None:
            raise UsageError(f"no module `{place}`, and no file of that name")
    except (ModuleNotFoundError, ValueError):
        raise UsageError(f"no module `{place}`, and no file of that name") from None
    return guarded(lambda: importlib.import_module(place), f"importing `{place}` failed")


def _near_file(file: Path) -> str:
    if not file.parent.is_dir():
        return f": there is no folder `{file.parent}`"
    try:
        raise nearest(file.name, [f.name for f in file.parent.glob("*.py")], "file")
    except UsageError as error:
        text = str(error)
        return f": {text.partition(': ')[2]}" if "did you mean" in text else ""


def _from_file(file: Path) -> ModuleType:
    """The module of a file, its folder first on the path as for a script."""
    sys.path.insert(0, str(file.resolve().parent))
    name = file.stem if file.stem.isidentifier() and file.stem not in sys.modules else f"checked_{abs(hash(file))}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise UsageError(f"`{file}` is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _named(module: ModuleType, name: str, place: str) -> Picked:
    value: Any = module
    for part in name.split("."):
        if not hasattr(value, part):
            known = [picked.name for picked in _candidates(module)] or [n for n in dir(module) if n[0] != "_"]
            raise UsageError(f"`{place}`: {nearest(name, known, 'function')}")
        value = getattr(value, part)
    if not callable(value):
        raise UsageError(f"`{place}:{name}` is no function: found {type(value).__name__}")
    if _is_kernel(value):
        raise UsageError(
            f"`{place}:{name}` is a kernel, which runs on blocks: name the launch or the function that calls it"
        )
    return _picked(module, name, value)


def _picked(module: ModuleType, name: str, value: Any) -> Picked:
    if not _is_launch(value):
        return Picked(name, value, False)
    return Picked(name, value, True, (module.__file__ or "", _assigned(module.__file__ or "", name)))


def _assigned(file: str, name: str) -> int:
    """The line of the module where a name is assigned last; 1 if it is not seen."""
    try:
        tree = ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return 1
    lines = [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name) and target.id == name
    ]
    return lines[-1] if lines else 1


def _candidates(module: ModuleType) -> list[Picked]:
    found = []
    for name, value in vars(module).items():
        if name.startswith("_") or isinstance(value, type) or not callable(value):
            continue
        if _is_launch(value):
            found.append(_picked(module, name, value))
            continue
        inner = inspect.unwrap(value)
        if inspect.isfunction(inner) and inner.__module__ == module.__name__ and not _is_kernel(value):
            found.append(Picked(name, value, False))
    return found


def _is_launch(value: object) -> bool:
    launching = sys.modules.get("typedpallas.launching")
    return launching is not None and isinstance(value, launching.Launch)


def _is_kernel(value: object) -> bool:
    from typedpallas.types import AnnotationError, kernel_type

    if _is_launch(value) or not inspect.isfunction(value):
        return False
    try:
        return any(parameter.type is not None for parameter in kernel_type(value).parameters)
    except (AnnotationError, NameError, TypeError, ValueError):
        return False


def _signature(function: Callable[..., Any]) -> str:
    try:
        return str(inspect.signature(function))
    except (TypeError, ValueError):
        return "(...)"


def guarded[T](work: Callable[[], T], doing: str, *passed: type[Exception]) -> T:
    """The result of work on the user's code; what that raises becomes a `UsageError` with their frames alone.

    `PlacementError` and exceptions of the classes in ``passed`` go through.
    """
    try:
        return work()
    except UsageError:
        raise
    except (Exception, SystemExit) as error:
        if isinstance(error, (PlacementError, *passed)):
            raise
        if type(error).__module__.startswith("typedpallas."):
            raise UsageError(f"{doing}\n{_users_line(error)}{error}") from error
        raise UsageError(f"{doing}\n{trimmed(error)}") from error


def _users_line(error: BaseException) -> str:
    """``file:line: `` of the user's innermost frame; empty if there is none."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_users(frame.filename)]
    return f"{terminal.shown_path(frames[-1].filename)}:{frames[-1].lineno}: " if frames else ""


def trimmed(error: BaseException) -> str:
    """The traceback of an error with the frames of the user's own files alone."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_users(frame.filename)]
    lines = traceback.format_list(frames)
    head = ["Traceback (your files only):\n"] if frames else []
    # JAX adds a note on the frames that it removed; here it would only repeat what the head says.
    notes = [note for note in getattr(error, "__notes__", []) if "JAX_TRACEBACK_FILTERING" not in note]
    said = [f"{note}\n" for note in notes]
    last = traceback.TracebackException(type(error), error, None)
    last.__notes__ = None
    return "".join([*head, *lines, *last.format_exception_only(), *said]).rstrip()


@functools.cache
def _is_users(file: str) -> bool:
    if file.startswith("<"):
        return False
    path = str(Path(file).resolve())
    return not path.startswith((_PACKAGE + os.sep, *(folder + os.sep for folder in _FOREIGN)))
