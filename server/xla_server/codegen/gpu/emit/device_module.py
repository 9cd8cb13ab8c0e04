"""Modules of kernels for a GPU: PTX, machine code, and resources of a thread."""

import dataclasses
import json
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True, slots=True)
class Resources:
    """Registers of 32 bits that a thread of a kernel has, and bytes of its memory.

    `stack_bytes` are those of its stack, `spilled_bytes` those of registers that are stored there.
    """

    registers: int
    stack_bytes: int = 0
    spilled_bytes: int = 0

    def __str__(self) -> str:
        memory = f", {self.stack_bytes} bytes of stack" if self.stack_bytes else ""
        spilled = f", {self.spilled_bytes} bytes spilled" if self.spilled_bytes else ""
        return f"{self.registers} registers{memory}{spilled}"


@dataclasses.dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class DeviceModule:
    """A module of kernels, as long as a program refers to it.

    `ptx` is PTX, or the input of a test's driver. `compiler` names the compiler to machine code; if
    that is the driver, which compiles when the module is loaded, `cubin` is empty. `resources` has
    the known resources of kernels by symbol.
    """

    ptx: bytes
    cubin: bytes = b""
    compiler: str = ""
    resources: Mapping[str, Resources] = dataclasses.field(default_factory=dict)

    @property
    def code(self) -> bytes:
        """Return the code that the driver loads."""
        return self.cubin or self.ptx

    def encoded(self) -> bytes:
        """Return a line of JSON and the bytes that it describes."""
        head = {
            "ptx": len(self.ptx),
            "compiler": self.compiler,
            "resources": {name: dataclasses.astuple(r) for name, r in self.resources.items()},
        }
        return json.dumps(head).encode() + b"\n" + self.ptx + self.cubin

    @classmethod
    def decoded(cls, data: bytes) -> "DeviceModule":
        """Return the module that was encoded."""
        line, _, rest = data.partition(b"\n")
        head = json.loads(line)
        resources = {name: Resources(*numbers) for name, numbers in head["resources"].items()}
        size = head["ptx"]
        return cls(rest[:size], rest[size:], head["compiler"], resources)
