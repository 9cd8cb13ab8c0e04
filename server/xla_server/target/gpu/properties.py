"""Properties of NVIDIA GPUs by compute capability, which the compiler reads without a driver.

Semantics: the CUDA programming guide, Compute Capabilities; PTX ISA, Release Notes.
"""

import dataclasses
from collections.abc import Mapping

WARP = 32
"""Threads of a warp, which execute one instruction together."""

ACCESS_BYTES = 16
"""Size of the widest memory access of one thread, in bytes."""

MAX_RUN = 8
"""Most neighbouring elements that a thread computes: the code is repeated for each."""

WIDE_THREADS = 512
"""Threads of a multiprocessor that keep its units for F64 busy: four warps for each of its four
schedulers, which wait eight cycles for a result. A thread has up to 128 registers then."""

MAX_THREAD_VALUES = 32
"""Most values that a thread loads before it stores: half of the 64 registers with which half of the
threads of a multiprocessor are resident."""

BYTES_IN_FLIGHT = 32
"""Bytes of the loads that a thread has in flight: 64 KiB for 2048 threads. To use 4.8 TB/s at a
latency of a microsecond, each of 132 multiprocessors must have 36 KiB in flight."""

FULL_THREADS = 1 << 18
"""Threads that nearly fill any GPU: 132 or 148 multiprocessors hold 2048 each."""

MAX_UNROLLED_ITERATIONS = 8
"""Most iterations of a thread over a row that are fully unrolled: values stay in registers."""

LONG_ROW_UNROLL = 4
"""Unroll factor of longer such loops: loads of several iterations are in flight at once."""

MAX_WARP_ROW = 1024
"""Longest row, in elements, that one warp reduces: 32 in each lane."""

MAX_BLOCK_ROW = 1 << 16
"""Longest row, in elements, that one thread block reduces."""

BLOCK_THREADS = 256
"""Threads of a block that uses no shared memory: eight or six blocks fill a multiprocessor."""

FEW_BLOCKS = 128
"""Blocks of a launch below which multiprocessors have none: GPUs have 108 or more. It is one number
for all GPUs, as sums depend on it."""

SECTOR_BYTES = 32
"""Bytes of the least access to memory."""

MAX_BLOCK_THREADS = 1024
"""Most threads of a block."""

MAX_BLOCKS = (1 << 31) - 1
"""Most blocks in the first dimension of a grid."""

COUNTED_LANES = 1 << 14
"""Threads that execute at the same time in the cost model: about the lanes of an H100. It is one
number for all GPUs, so that a program has the same kernels on each."""

ACCESS_ADDITIONS = 128
"""Latency of a memory access in additions: some 500 cycles, at four per addition."""

UNSEEN_WORK = 3 << 20
"""Most additions of a thread between two polls of the cancellation flag: 10 ms at 1.2 GHz. The aim
is a tenth of a second, and the multiprocessor interleaves other threads."""

SPAN_WORK = UNSEEN_WORK >> 4
"""Additions between two polls in a kernel that polls. Reading the flag in host memory takes two
microseconds, a three hundredth of that."""

ENTRY_WORK = 1 << 12
"""Fewest operations and accesses of a thread that polls before it begins. Shorter threads would
poll some hundred million times a second, a tenth of the bandwidth of the bus to the host."""

FLAG_BYTES = 16
"""Bytes of shared memory, with padding, by which one thread shares the flag with its block."""

JOINED_THREADS = 1 << 14
"""Most threads of several kernels in one launch. All GPUs execute them at once, whatever their
registers: 108 multiprocessors with 65536 registers hold 27648 threads of 255."""

JOINED_BYTES = 1 << 20
"""Most bytes of the arrays of a kernel that shares a launch. They are moved in a fraction of a
launch's two microseconds. The bound also limits memory, as arrays of a shared launch live
longer."""

JOINED_ARGUMENTS = 128
"""Most arguments of a launch that several kernels share: drivers accept 512 at least."""

JOINED_ROWS = 32
"""Most thunks that a kernel is moved across to share a launch with another."""

LIBRARY_CONVOLUTIONS = False
"""True lets cuDNN compute convolutions if it is installed. It is False since no device has shown
this right or fast yet: `python -m tests.cuda.device_check --only convolutions` compares it with
products of im2col matrices, in numbers and in time."""

PRODUCT_TILE = 32
"""Rows and columns of a product's tile that a block computes, four results in each thread."""

PRODUCT_LEAST = PRODUCT_TILE // 2
"""Fewest rows, columns and terms of a product for tiles: smaller ones leave them mostly empty."""

PRODUCT_DEPTH = 128
"""Most multiplications of f32 per result of a product that a kernel computes instead of a library.
An A100 takes 1.5 microseconds for a block, at 64 per clock: less than a launch. It is one number
for all GPUs, so that a program has the same sums on each."""

BANK_BYTES = 4
"""Width of a bank of shared memory, in bytes: threads of a warp access different banks at once."""

STATIC_SHARED_BYTES = 48 << 10
"""Shared memory of a block, in bytes, without a request to the driver for more."""


@dataclasses.dataclass(frozen=True, slots=True)
class Gpu:
    """The multiprocessors of a GPU.

    `ptx` is the version of PTX to write, such as 81 for 8.1: the oldest that the compute capability
    has, as a driver refuses a version newer than its own. It is 8.1 at least, which allows 4095
    arguments of 8 bytes instead of 544: a sort has two for each operand. The others are counts and
    bytes: `registers` of 32 bits, `threads` and `shared_bytes` belong to one multiprocessor,
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
"""A common GPU of each compute capability, by LLVM's name."""
