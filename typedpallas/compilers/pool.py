"""Warm worker processes, each holding one vendor's compiler."""

import atexit
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from typedpallas.compilers.channel import Channel, ChannelClosed, ChannelTimeout, Message
from typedpallas.compilers.job import Files, Job, environment, worker_kind

_START_SECONDS = 120.0
"""How long a worker may take to import JAX; a busy machine is slow at it."""
_MOST_IDLE = 6
"""Idle workers kept; each holds some hundred megabytes."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What became of a job. `log`: what the compiler wrote on stderr meanwhile."""

    status: str
    """``compiled``, ``refused``, ``failed``, ``unavailable``, ``crashed`` or ``timeout``."""
    header: dict[str, Any] = field(default_factory=dict)
    text: str = ""
    """The compiled module."""
    log: str = ""
    signal: int = 0
    """The signal that ended a crashed worker, or zero."""


class Worker:
    """One process; one job at a time."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._files = Files(Path(tempfile.mkdtemp(prefix="typedpallas-")))
        self._files.dumps.mkdir()
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        self._channel = Channel(ours_in, ours_out)
        module = [sys.executable, "-P", "-m", "typedpallas.compilers.worker"]
        paths = os.pathsep.join(path for path in sys.path if path)
        with self._files.stdout.open("ab") as stdout, self._files.stderr.open("ab") as stderr:
            self._process = subprocess.Popen(
                [*module, str(theirs_in), str(theirs_out), str(self._files.folder)],
                env=environment(kind) | {"PYTHONPATH": paths},
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                pass_fds=(theirs_in, theirs_out),
                start_new_session=True,  # Ctrl-C in the terminal is the parent's to handle
            )
        os.close(theirs_in)
        os.close(theirs_out)
        self._ready = False

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def ask(self, job: Job) -> Answer:
        """Sends the job and waits for its answer until the job's deadline.

        After an answer of ``crashed`` or ``timeout``, or an exception, the process is gone.
        """
        try:
            if not self._ready:
                self._channel.receive(_START_SECONDS)
                self._ready = True
            self._channel.send(*job.message())
            return self._answer(self._channel.receive(job.deadline))
        except ChannelClosed:
            return self._gone("crashed" if self._ready else "unavailable")
        except ChannelTimeout:
            self.kill()
            return self._gone("timeout" if self._ready else "unavailable")
        except BaseException:
            self.kill()
            raise

    def _answer(self, message: Message) -> Answer:
        header, payload = message
        return Answer(status=header.pop("status"), header=header, text=payload.decode(), log=self._said())

    def _gone(self, status: str) -> Answer:
        code = self._process.wait()
        return Answer(status=status, log=self._said(), signal=-code if code < 0 else 0)

    def _said(self) -> str:
        with contextlib.suppress(FileNotFoundError):
            return self._files.stderr.read_text(errors="replace")
        return ""

    def kill(self) -> None:
        """Ends the process now."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        """Ends the process and removes its files."""
        self.kill()
        self._channel.close()
        shutil.rmtree(self._files.folder, ignore_errors=True)


class Pool:
    """Workers by kind. Several threads may ask at once; each gets a worker of its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[Worker] = []
        self._busy: set[Worker] = set()
        self.started = 0
        """Workers started so far."""
        os.register_at_fork(after_in_child=self._forget)

    def ask(self, job: Job) -> Answer:
        """The answer to the job, from a warm worker where there is one."""
        worker = self._take(worker_kind(job.target))
        try:
            answer = worker.ask(job)
        except BaseException:
            self._busy.discard(worker)
            worker.close()
            raise
        self._give_back(worker)
        return answer

    def interrupt(self) -> None:
        """Ends the busy workers; whoever waits for one is told that it crashed."""
        for worker in list(self._busy):
            worker.kill()

    def shutdown(self) -> None:
        """Ends the idle workers; the next job starts a fresh one."""
        with self._lock:
            workers, self._idle = self._idle, []
        for worker in workers:
            worker.close()

    def _take(self, kind: str) -> Worker:
        with self._lock:
            for worker in reversed(self._idle):
                if worker.kind == kind:
                    self._idle.remove(worker)
                    if worker.alive:
                        self._busy.add(worker)
                        return worker
                    worker.close()
                    break
            self.started += 1
        worker = Worker(kind)
        self._busy.add(worker)
        return worker

    def _give_back(self, worker: Worker) -> None:
        with self._lock:
            self._busy.discard(worker)
            spare = [worker]
            if worker.alive:
                self._idle.append(worker)
                spare = [self._idle.pop(0)] if len(self._idle) > _MOST_IDLE else []
        for old in spare:
            old.close()

    def _forget(self) -> None:
        """In a forked child: the workers are the parent's."""
        self._lock = threading.Lock()
        self._idle = []
        self._busy = set()


POOL = Pool()
atexit.register(POOL.shutdown)
