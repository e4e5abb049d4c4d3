"""The first meaningful line of a compiler's words, and where it points in the user's source."""

import re
import sysconfig
import traceback
from dataclasses import dataclass
from pathlib import PurePath
from types import TracebackType

import jax
import jaxlib

_MOST = 300
"""Characters of a reason; what is left out stays in the detail."""

_NOISE = (
    r"^(?:[A-Z_]+: )+(?=\S)",  # status names, `INTERNAL: `
    r"XLA:TPU compile permanent error\. ",
    r"Mosaic failed to compile TPU kernel with MLIR module name `[^`]*` HLO name `[^`]*`: ",
    r"Failed to parse Triton module: ",
    r"^[^\s:]+\.py:\d+:\d+: error: ",
    r"^loc\(.*\): error: (?:'gpu\.binary' op )?",
    r"ptxas exited with non-zero error code \d+, output: ",
    r"ptxas \S*tempfile\S*, line \d+; info\s*: .*$",  # a remark before the error
    r"ptxas \S*tempfile\S*, line \d+; error\s*: ",
    r"^[FEW]\d{4} [\d:.]+ +\d+ \S+\] ",  # a log line's date, thread and source
    r"(?:^| )[EF]\d{4}: \w+:? *",  # error codes of XLA, `E1001: CompileTimeScopedVmemOom:`
    r"^Failed to set window params for \w+ \d+: *$",  # why is on the next line
    r"(?: while allocating on stack)? for %[\w.\-]+ = .*?(?=\. [A-Z]|$)",  # the HLO instruction
    r"It should not be possible to run out of scoped vmem.*$",
    r"Please (?:file|report) an? (?:bug|issue) at:? https?://\S+",
    r"See (?:details|also)?(?: at)? ?https?://\S+(?: for more details\.?)?",
    r"Pallas encountered an internal verification error\.\s*(?:Error details: )?",
    r", context: \[\]",
    r"^Check failed: (?=Check failed: )",
)
_POINTER = re.compile(r" ?(?:at )?0x[0-9a-f]{6,}")
_FOLDERS = re.compile(r"(?<![\w.:/])/(?:[^\s/:\"']+/)+(?=[^\s/:\"']+)")
_SKIPPED = re.compile(
    r"^\s*(?:@ |\*\*\* |#\d+ |at location:|=== Source Location|\[type\.googleapis|nvdisasm invocation|"
    r"The MLIR operation|WARNING: |I\d{4} |https?://|\S+\.cc:\d+\s*$|input ir: |[({%]|\.\.\. additional)"
)
_TELLING = re.compile(r"Check failed|^F\d{4} |ptxas (?:fatal|error)|LLVM ERROR|[Ee]rror\s*:|Assertion|Fatal Python")
_AT = re.compile(
    r'"(?P<a>[^"\n]+\.py)":(?P<a_line>\d+):\d+'  # Mosaic's location
    r"|(?:^|: )(?P<b>\S+\.py):(?P<b_line>\d+):\d+: error"  # Triton's
    r"|\bat (?P<c>\S+\.py):(?P<c_line>\d+)\b",  # Pallas's messages
    re.M,
)
_PALLAS = (
    "jax._src.pallas",
    "jax.experimental.pallas",
    "jax.experimental.mosaic",
    "jax._src.tpu_info",
    "jax._src.tpu_custom_call",
)
_NOT_THE_USERS = (
    *(f"{PurePath(str(m.__file__)).parent}/" for m in (jax, jaxlib)),
    f"{PurePath(__file__).parent}/",
    "<",
)
"""How the files of JAX and of this package begin, and code that is in no file."""
_STDLIB = f"{sysconfig.get_path('stdlib')}/"
_LIBRARY = "jax.experimental.pallas.ops"
"""Kernels written in Pallas: a refusal in there is the library's own."""


@dataclass(frozen=True)
class Reason:
    """What the compiler said: `first` line in its own words, all of them, and the user's line it names."""

    first: str
    detail: str = ""
    where: tuple[str, int] | None = None
    """File and line."""


def of_words(message: str, log: str = "", fallback: str = "no reason given") -> Reason:
    """The reason in a compiler's error message, or else in what it wrote on stderr."""
    message, log = _printable(message), _printable(log)
    detail = "\n".join(part.strip() for part in (message, log) if part.strip())
    first = _first(message) or _first(log, telling=True) or _first(log) or fallback
    if first.startswith("Pass pipeline failed"):  # what failed is only on stderr
        first = _first(log, telling=True) or _first(log) or first
    return Reason(first, detail, _where(detail))


def of_exception(error: BaseException) -> Reason:
    """The reason in an exception of Pallas's own."""
    message = str(error)
    detail = "".join(traceback.format_exception_only(error)).strip()
    if not message.strip():
        frame = traceback.extract_tb(error.__traceback__)[-1:]
        where = f" at `{frame[0].line}` in {PurePath(frame[0].filename).name}" if frame else ""
        return Reason(f"{type(error).__name__}{where}", detail)
    return Reason(_first(message) or message, detail, _user_line(error) or _where(message))


def raised_by_pallas(error: BaseException) -> bool:
    """Whether the exception comes out of Pallas's own code; needs JAX's frames in its traceback."""
    frame: TracebackType | None = error.__traceback__
    module = ""
    while frame is not None:
        module = frame.tb_frame.f_globals.get("__name__", "")
        frame = frame.tb_next
    return module.startswith(_PALLAS) and not module.startswith(_LIBRARY)


def without_places(detail: str) -> str:
    """`detail` without the lines that name places in the user's source."""
    kept = [line for line in detail.splitlines() if not line.startswith("at location:")]
    return "\n".join(line for line in kept if not _AT.search(line))


def _first(words: str, telling: bool = False) -> str:
    for line in words.splitlines():
        if _SKIPPED.match(line) or (telling and not _TELLING.search(line)):
            continue
        said = _cleaned(line)
        if said:
            return said
    return ""


def _cleaned(line: str) -> str:
    for noise in _NOISE:
        line = re.sub(noise, "", line)
    line = _FOLDERS.sub("", _POINTER.sub("", line)).strip(" -\t")
    if not re.search(r"\w", line):
        return ""
    if len(line) <= _MOST:
        return line
    cut = line.rfind(". ", 0, _MOST)
    return line[: cut + 1] if cut > 0 else line[:_MOST] + "..."


def _where(words: str) -> tuple[str, int] | None:
    found = _AT.search(words)
    if found is None:
        return None
    form = next(name for name in "abc" if found[name])
    return found[form], int(found[f"{form}_line"])


def _user_line(error: BaseException) -> tuple[str, int] | None:
    """The innermost line outside of JAX in the exception's traceback.

    While lowering an operation, JAX hangs the traceback of the line that made it on the exception, as the
    cause.
    """
    for exception in (error.__cause__, error):
        frames = traceback.extract_tb(exception.__traceback__) if exception else []
        for frame in reversed(frames):
            library = frame.filename.startswith(_STDLIB) and "site-packages" not in frame.filename
            if not library and not frame.filename.startswith(_NOT_THE_USERS):
                return frame.filename, frame.lineno or 0
    return None


def _printable(words: str) -> str:
    return "".join(c for c in words if c.isprintable() or c in "\n\t")
