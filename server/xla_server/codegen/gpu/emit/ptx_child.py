"""The process in which LLVM writes PTX; LLVM ends it at an instruction without code.

Requests and answers are a line of JSON, such as `{"size": 5}`, and then `size` bytes. A request
also has `name` and `features` of the GPU; an answer may be `{"error": "..."}` alone.
"""

import json
import sys
from typing import BinaryIO

import llvmlite.binding as llvm

TRIPLE = "nvptx64-nvidia-cuda"
_SPEED = 3
"""LLVM's optimisation level, -O3, as for processors."""


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until their end."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    while line := requests.readline():
        request = json.loads(line)
        text = requests.read(request["size"]).decode()
        try:
            found = _ptx(text, request["name"], request["features"]).encode()
        except RuntimeError as error:
            head: dict[str, object] = {"error": str(error)}
            found = b""
        else:
            head = {"size": len(found)}
        answers.write(json.dumps(head).encode() + b"\n" + found)
        answers.flush()


def _ptx(text: str, name: str, features: str) -> str:
    """Return the PTX of a module, whose loops are unrolled where they request it.

    Raises RuntimeError for a text that is no module.
    """
    target = llvm.Target.from_triple(TRIPLE)
    machine = target.create_target_machine(cpu=name, features=features, opt=_SPEED)
    module = llvm.parse_assembly(text)
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=_SPEED)
    options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    written: str = machine.emit_assembly(module)
    return written


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
