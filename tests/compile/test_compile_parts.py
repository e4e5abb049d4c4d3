"""The small parts: messages over pipes, deadlines, and a compiler's words made short."""

import contextlib
import os
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from typedpallas.compilers import reasons
from typedpallas.compilers.channel import Channel, ChannelClosed, ChannelTimeout
from typedpallas.compilers.deadline import DeadlinePassed, run_within
from typedpallas.compilers.results import Compiled, KernelCode, MemoryFigures


def loop_back() -> Channel:
    reads, writes = os.pipe()
    return Channel(reads, writes)


@given(st.lists(st.tuples(st.dictionaries(st.text(), st.integers() | st.text()), st.binary(max_size=99)), max_size=4))
def test_messages_arrive_whole_and_in_order(messages: list[tuple[dict[str, object], bytes]]) -> None:
    channel = loop_back()
    for header, payload in messages:
        channel.send(header, payload)
    assert [channel.receive(1.0) for _ in messages] == messages
    channel.close()


def test_a_large_message_arrives_while_it_is_written() -> None:
    channel, payload = loop_back(), os.urandom(1 << 21)
    writer = threading.Thread(target=channel.send, args=({"a": 1}, payload))
    writer.start()
    assert channel.receive(10.0) == ({"a": 1}, payload)
    writer.join()
    channel.close()


def test_half_a_message_is_a_timeout_and_a_closed_end_is_told() -> None:
    reads, writes = os.pipe()
    channel = Channel(reads, os.dup(writes))
    os.write(writes, b"\0" * 7)
    with pytest.raises(ChannelTimeout):
        channel.receive(0.05)
    channel.close()
    with pytest.raises(ChannelClosed):
        Channel(os.open(os.devnull, os.O_RDONLY), writes).send({})


def test_work_in_time_is_left_alone() -> None:
    assert run_within(5.0, lambda: 7) == 7
    with pytest.raises(KeyError):
        run_within(5.0, lambda: {}["absent"])


def test_work_that_swallows_exceptions_is_stopped_too() -> None:
    def stubborn() -> None:
        while True:
            with contextlib.suppress(Exception):
                time.sleep(0.005)

    start = time.monotonic()
    with pytest.raises(DeadlinePassed):
        run_within(0.2, stubborn)
    assert time.monotonic() - start < 5
    time.sleep(0.05)  # nothing more is raised in this thread
    assert run_within(1.0, lambda: 1) == 1


def test_a_swallowed_stop_is_raised_again() -> None:
    def swallows_one() -> None:
        try:
            while True:
                time.sleep(0.005)
        except BaseException:
            while True:
                time.sleep(0.005)

    with pytest.raises(DeadlinePassed):
        run_within(0.1, swallows_one)


LIBTPU = """RESOURCE_EXHAUSTED: E1001: CompileTimeScopedVmemOom:
Ran out of memory in memory space vmem while allocating on stack for %f.1 = f32[65536,512]{1,0:T(8,128)} \
custom-call(%x.1), custom_call_target="tpu_custom_call", metadata={op_name="jit(f)/pallas_call"}. Scoped \
allocation with size 64.00M and limit 16.00M exceeded scoped vmem limit by 48.00M. It should not be possible \
to run out of scoped vmem -
See https://openxla.org/xla/errors/error_1001 for more details."""
MOSAIC = """INTERNAL: Mosaic failed to compile TPU kernel with MLIR module name `<no name>` HLO name `k.1`: E2003: \
CompileTimeMosaicUnproven: cannot statically prove that index in dimension 1 is a multiple of 128
See https://openxla.org/xla/errors/error_2003 for more details.

at location: loc("get:"("get"("f.<locals>.kernel"("/home/me/k.py":28:26 to :36))))

The MLIR operation involved:
  %5 = "tpu.vector_load"(%arg1) : (memref<8x256xf32>) -> vector<1x1xf32>"""
CRASH = """I1129 17:45:33.0 25 some.cc:1] hello
F1129 17:45:33.040060   25699 math_util.cc:65] Check failed: llo::CouldLeS32(digits[i], bounds[i])
*** Check failure stack trace: ***
    @     0x7f5814d94bd4  absl::log_internal::LogMessage::SendToLog()"""
TRITON = """INVALID_ARGUMENT: Failed to parse Triton module: /home/me/k.py:21:17: error: order must have the same \
size as the rank of the operand and result
        o[...] = jnp.matmul(v[...], m[...])"""


@pytest.mark.parametrize(
    ("message", "log", "first", "where"),
    [
        (
            LIBTPU,
            "",
            "Ran out of memory in memory space vmem. Scoped allocation with size 64.00M and limit 16.00M "
            "exceeded scoped vmem limit by 48.00M.",
            None,
        ),
        (
            MOSAIC,
            "",
            "cannot statically prove that index in dimension 1 is a multiple of 128",
            ("/home/me/k.py", 28),
        ),
        ("", CRASH, "Check failed: llo::CouldLeS32(digits[i], bounds[i])", None),
        (
            TRITON,
            "",
            "order must have the same size as the rank of the operand and result",
            ("/home/me/k.py", 21),
        ),
        ("INTERNAL: Pass pipeline failed", "noise\nptxas fatal : no such thing", "ptxas fatal : no such thing", None),
        (
            "INTERNAL: Pass pipeline failed",
            "loc(\"/home/me/k.py\":8:14): error: 'gpu.binary' op ptxas exited with non-zero error code 65280, "
            "output: ptxas /tmp/tempfile-a-1, line 155; error   : Instruction 'wgmma.fence' not supported",
            "Instruction 'wgmma.fence' not supported",
            ("/home/me/k.py", 8),
        ),
        (
            "INTERNAL: Pass pipeline failed",
            "loc(\"/home/me/k.py\":8:14): error: 'gpu.binary' op ptxas exited with non-zero error code 65280, "
            "output: ptxas /tmp/tempfile-a-1, line 86; info    : Potential out of bound access.\n"
            "ptxas /tmp/tempfile-a-1, line 152; error   : Feature '.kind::i8' not supported on .target 'sm_103a'\n"
            "ptxas fatal   : Ptx assembly aborted due to errors",
            "Feature '.kind::i8' not supported on .target 'sm_103a'",
            ("/home/me/k.py", 8),
        ),
        (
            "Failed to set window params for input 0: E2002: CompileTimeMosaicMisalignedBlockAndTiling:\n"
            "Operand of shape (256) has tiling (256), but its block shape (128) is not divisible",
            "",
            "Operand of shape (256) has tiling (256), but its block shape (128) is not divisible",
            None,
        ),
        ("UNIMPLEMENTED: at 0x7ffe12345678 in /opt/xla/a.cc", "", "in a.cc", None),
        ("", "", "nothing said", None),
    ],
)
def test_the_first_meaningful_line(message: str, log: str, first: str, where: tuple[str, int] | None) -> None:
    reason = reasons.of_words(message, log, "nothing said")
    assert (reason.first, reason.where) == (first, where)


def test_lines_that_name_places_can_be_left_out() -> None:
    assert "k.py" not in reasons.without_places(MOSAIC)
    assert "multiple of 128" in reasons.without_places(MOSAIC)


@settings(deadline=None)
@given(st.text(), st.text())
def test_any_words_give_a_reason(message: str, log: str) -> None:
    first = reasons.of_words(message, log, "nothing said").first
    assert first.strip() and "\n" not in first and len(first) <= 303


def test_a_verdict_prints_without_its_module() -> None:
    code = KernelCode(name="k", ptx="ld.global" * 1000)
    memory = MemoryFigures(code=None, arguments=1, outputs=1, temporaries=0, aliased=0)
    found = Compiled(
        target="h100", compiler="c", memory=memory, module="HloModule " * 1000, kernels=(code,), seconds=0.1
    )
    assert "HloModule" not in repr(found) and "ld.global" not in repr(found)
