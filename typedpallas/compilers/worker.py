"""The process that holds a vendor's compiler: ``python -m typedpallas.compilers.worker READS WRITES FOLDER``.

It answers one message at a time, on the pipes whose file descriptors it is given; its stdout and stderr are
files in the folder, which the parent reads. It is killed when a compile takes too long, so it keeps
nothing of value.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

from typedpallas.compilers import clients
from typedpallas.compilers.channel import Channel, ChannelClosed
from typedpallas.compilers.job import Files, Job

_ORPHAN_SECONDS = 30
"""How long after its deadline a compile is ended here, in case the parent is gone and cannot."""


def _answer(header: dict[str, Any], code: bytes, files: Files) -> tuple[dict[str, Any], bytes]:
    job = Job.from_message(header, code)
    try:
        devices = clients.devices(job.target, job.partitions)
    except clients.TooFewDevices as error:
        return {"status": "unavailable", "message": str(error), "installed": True}, b""
    except Exception as error:
        return {"status": "unavailable", "message": f"{type(error).__name__}: {error}"}, b""
    try:
        return clients.compile_code(job, devices, files)
    except clients.JaxRuntimeError as error:
        return {"status": "refused", "message": str(error)}, b""
    except Exception as error:
        return {"status": "failed", "message": f"{type(error).__name__}: {error}"}, b""


def main() -> None:
    """Serves until the parent closes its end."""
    channel = Channel(int(sys.argv[1]), int(sys.argv[2]))
    files = Files(Path(sys.argv[3]))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    try:
        channel.send({"status": "ready"})
        while True:
            header, code = channel.receive()
            files.clear()
            signal.setitimer(signal.ITIMER_REAL, header["deadline"] + _ORPHAN_SECONDS)
            reply, text = _answer(header, code, files)
            signal.setitimer(signal.ITIMER_REAL, 0)
            channel.send(reply, text)
    except ChannelClosed:
        os._exit(0)  # nothing is left to clean up


if __name__ == "__main__":
    main()
