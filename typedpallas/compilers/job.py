"""What a worker is asked, and which kind of worker."""

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from typedpallas.chips import GpuTarget, Target, TpuTarget


@dataclass(frozen=True, kw_only=True)
class Job:
    """One compile: the module's bytecode and what to compile it for."""

    target: Target
    code: bytes
    partitions: int
    options: dict[str, Any]
    deadline: float

    def message(self) -> tuple[dict[str, Any], bytes]:
        """The job as a message's object and payload."""
        fields = {
            "target": asdict(self.target),
            "partitions": self.partitions,
            "options": self.options,
            "deadline": self.deadline,
        }
        return fields, self.code

    @classmethod
    def from_message(cls, header: dict[str, Any], code: bytes) -> "Job":
        """The job that `message` wrote."""
        fields = dict(header)
        target = fields.pop("target")
        target |= {name: tuple(target[name]) for name in ("aliases", "kinds") if name in target}
        kind = TpuTarget if target["machine"] == "tpu" else GpuTarget
        return cls(target=kind(**target), code=code, **fields)


@dataclass(frozen=True)
class Files:
    """A worker's files, in a folder of its own."""

    folder: Path

    @property
    def stdout(self) -> Path:
        """What the worker's compiler prints: Mosaic GPU its PTX."""
        return self.folder / "stdout"

    @property
    def stderr(self) -> Path:
        """What the worker's compiler complains of, and its last words."""
        return self.folder / "stderr"

    @property
    def dumps(self) -> Path:
        """Where XLA leaves PTX."""
        return self.folder / "dumps"

    def clear(self) -> None:
        """Empties them for the next job; stdout and stderr are open for appending."""
        for stream in (self.stdout, self.stderr):
            os.truncate(stream, 0)
        for left in self.dumps.iterdir():
            left.unlink()


def worker_kind(target: Target) -> str:
    """Jobs of one kind may share a worker: ``tpu``, or ``gpu-9.0``.

    ptxas keeps the target of the first chip that a process compiles for, so each compute capability has its
    own process.
    """
    return f"gpu-{target.compute_capability}" if isinstance(target, GpuTarget) else "tpu"


def environment(kind: str) -> dict[str, str]:
    """The environment of a worker of this kind."""
    common = {**os.environ, "JAX_PLATFORMS": "cpu"}
    if kind == "tpu":
        return common | {
            "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",  # otherwise one process at a time
            "TPU_SKIP_MDS_QUERY": "1",  # no metadata server is asked
            "TPU_ACCELERATOR_TYPE": "v5litepod-4",  # quiets a warning; the topology is named in the job
            "TPU_WORKER_HOSTNAMES": "localhost",
            "TPU_LOG_DIR": "disabled",  # otherwise log files in /tmp
        }
    return common | {"CUDA_VISIBLE_DEVICES": "", "MOSAIC_GPU_DUMP_PTX": "1", "MOSAIC_GPU_DUMP_PTXAS": "1"}
