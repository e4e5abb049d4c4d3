"""Length-prefixed messages over a pair of pipes.

A message is a JSON object and a payload of bytes: two 8-byte big-endian lengths, the object in UTF-8, the
payload. Nothing is unpickled, so neither side can be made to run code by what it reads.
"""

import json
import os
import select
import struct
import time
from typing import Any

_LENGTHS = struct.Struct(">QQ")

type Message = tuple[dict[str, Any], bytes]


class ChannelClosed(Exception):
    """The other side is gone; it closed its end between or within messages."""


class ChannelTimeout(Exception):
    """No whole message arrived in time."""


class Channel:
    """Messages read from one file descriptor and written to another; both are closed with it."""

    def __init__(self, reads: int, writes: int) -> None:
        self._reads = reads
        self._writes = writes

    def send(self, header: dict[str, Any], payload: bytes = b"") -> None:
        """Writes one message whole.

        Raises:
            ChannelClosed: the other side is gone.
        """
        head = json.dumps(header).encode()
        view = memoryview(_LENGTHS.pack(len(head), len(payload)) + head + payload)
        try:
            while view:
                view = view[os.write(self._writes, view) :]
        except BrokenPipeError as error:
            raise ChannelClosed from error

    def receive(self, seconds: float | None = None) -> Message:
        """Reads one message, waiting `seconds` for all of it (without end where none).

        Raises:
            ChannelClosed: the other side is gone.
            ChannelTimeout: the message is not whole by then.
        """
        until = None if seconds is None else time.monotonic() + seconds
        head, payload = _LENGTHS.unpack(self._exactly(_LENGTHS.size, until))
        return json.loads(self._exactly(head, until)), self._exactly(payload, until)

    def _exactly(self, size: int, until: float | None) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            if until is not None:
                left = max(0.0, until - time.monotonic())
                if not select.select([self._reads], [], [], left)[0]:
                    raise ChannelTimeout
            part = os.read(self._reads, min(size - len(parts), 1 << 20))
            if not part:
                raise ChannelClosed
            parts += part
        return bytes(parts)

    def close(self) -> None:
        """Closes both ends; the other side reads the end of the stream."""
        os.close(self._reads)
        os.close(self._writes)
