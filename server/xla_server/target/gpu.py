"""NVIDIA GPUs by compute capability: the properties that the compiler needs, without a driver.

Semantics: the CUDA programming guide, Compute Capabilities; PTX ISA, Release Notes.
"""

import dataclasses
from collections.abc import Mapping

WARP = 32
"""Threads that execute one instruction together."""

ACCESS_BYTES = 16
"""Bytes of the widest access to memory by one thread."""

MAX_RUN = 8
"""Largest number of neighbouring elements of a thread: each has its copy of the code."""

BYTES_IN_FLIGHT = 32
"""Bytes that a thread requests before it waits: 64 KiB for 2048 threads. To use 4.8 TB/s with a
latency of a microsecond, each of 132 multiprocessors must have 36 KiB of requests in flight."""

FULL_THREADS = 1 << 18
"""Threads of which all GPUs are full: 132 or 148 multiprocessors have room for 2048 each."""

MAX_TURNS = 8
"""Iterations of a thread over a row up to which they are unrolled: values stay in registers."""

TURN_COPIES = 4
"""Unroll factor of longer loops: the loads of the copies do not wait for each other."""

MAX_WARP_ROW = 1024
"""Elements of a row that one warp reduces: 32 in each lane."""

MAX_BLOCK_ROW = 1 << 16
"""Elements of a row that one block of threads reduces."""

BLOCK_THREADS = 256
"""Threads of a block whose threads share nothing: eight or six blocks fill a multiprocessor."""

MAX_BLOCK_THREADS = 1024
"""Threads that a block may have."""

MAX_BLOCKS = (1 << 31) - 1
"""Blocks that the first dimension of a grid may have."""

COUNTED_LANES = 1 << 14
"""Threads that the cost model takes to execute at a time: about those of an H100's lanes. It is one
number for all GPUs, so that a program has the same kernels on each."""

ACCESS_ADDITIONS = 128
"""Additions that take as long as a thread waits for memory: some 500 cycles, of four each."""

UNSEEN_WORK = 3 << 20
"""Largest number of additions of a thread between two polls of the cancellation flag: 10 ms at 1.2
GHz. A tenth of a second is the aim, and other threads of a multiprocessor take their share."""

LOOK_WORK = UNSEEN_WORK >> 4
"""Additions between two polls of a kernel of more work. A read of the host's memory takes two
microseconds, a three hundredth of that."""

ENTRY_WORK = 1 << 12
"""Fewest operations and accesses of a thread that polls before it begins. Shorter threads would
poll some hundred million times a second, a tenth of the capacity of the bus to the host."""

FLAG_BYTES = 16
"""Bytes of shared memory, with padding, for the flag as one thread of a block read it."""

JOINED_THREADS = 1 << 14
"""Largest number of threads of several kernels in one launch. All GPUs execute them at once
whatever registers they take: 108 multiprocessors have 65536 of these, for 27648 threads of 255."""

JOINED_BYTES = 1 << 20
"""Bytes of the arrays of a kernel that shares a launch. Memory moves them in a fraction of the two
microseconds of a launch; and they are kept for longer than by a launch of their own."""

JOINED_ARGUMENTS = 128
"""Arguments of a launch that several kernels share: a driver takes 512."""

JOINED_ROWS = 32
"""Rows that a kernel passes at most to share a launch with another."""

LIBRARY_CONVOLUTIONS = False
"""True lets cuDNN compute convolutions where it is installed. It is False since no device has shown
this right or fast yet: `python -m tests.cuda.device_check --only convolutions` compares it with
products of im2col matrices, in numbers and in time."""

PRODUCT_TILE = 32
"""Rows and columns of a product that a block of threads computes, four results in each thread."""

PRODUCT_LEAST = PRODUCT_TILE // 2
"""Rows, columns and terms of the sums of a product, below which tiles are mostly empty."""

PRODUCT_DEPTH = 128
"""Multiplications of f32 for each result of a product that a kernel computes, and no library. Those
of a block take an A100 1.5 microseconds, at 64 in a clock: less than a launch. It is one number for
all GPUs, so that a program has the same sums on each."""

BANK_BYTES = 4
"""Bytes of shared memory that each thread of a warp may access at once, in banks of their own."""

STATIC_SHARED_BYTES = 48 << 10
"""Bytes of shared memory that a block has without asking the driver for more."""


@dataclasses.dataclass(frozen=True, slots=True)
class Gpu:
    """The multiprocessors of a GPU.

    `ptx` is the version of PTX to write, such as 81 for 8.1: the oldest that the compute
    capability has, as a driver refuses a version newer than its own. It is 8.1 at least, in which a
    kernel has 4095 arguments and not 544: a sort has two for each operand. The others are counts
    and bytes: `registers` of 32 bits, `threads` and `shared_bytes` belong to one multiprocessor,
    `block_shared_bytes` is what one block may have of them. `has_conditional_graphs` lets loops and
    branches be nodes of graphs; without it the host reads what they depend on.
    """

    ptx: int
    multiprocessors: int
    threads: int
    registers: int
    shared_bytes: int
    block_shared_bytes: int
    l2_bytes: int
    has_conditional_graphs: bool = True


_REGISTERS = 64 << 10

GPUS: Mapping[str, Gpu] = {
    # A100
    "sm_80": Gpu(81, 108, 2048, _REGISTERS, 164 << 10, 163 << 10, 40 << 20),
    # H100; H200 has 60 MiB of second-level cache
    "sm_90": Gpu(81, 132, 2048, _REGISTERS, 228 << 10, 227 << 10, 50 << 20),
    # B200
    "sm_100": Gpu(86, 148, 2048, _REGISTERS, 228 << 10, 227 << 10, 126 << 20),
    # RTX 5090
    "sm_120": Gpu(87, 170, 1536, _REGISTERS, 100 << 10, 99 << 10, 96 << 20),
}
"""The GPU of each compute capability, by LLVM's name: a common one if there are several."""
