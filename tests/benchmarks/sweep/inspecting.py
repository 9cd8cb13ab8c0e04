"""Inspection of one program: its text, its jaxpr, and a dump of both compilers."""

import pathlib

import jax

from tests.benchmarks.sweep.catalogue import program
from tests.benchmarks.sweep.measuring import Peer
from xla_server.app.compile_tool.compile_command import compile_file


def show(seed: int, number: int) -> None:
    """Print the program, its parameters and its jaxpr."""
    drawn = program(seed, number)
    print(f"{drawn.family}, parameters: {', '.join(map(str, drawn.parameters))}")
    print(drawn.source)
    with jax.enable_x64(drawn.is_wide):
        shapes = [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in drawn.parameters]
        print(jax.make_jaxpr(drawn.function)(*shapes))


def dump(seed: int, number: int, directory: pathlib.Path) -> None:
    """Write the module, our stages, kernels and profile, XLA's module before and after its passes.

    Our profile is that of a run on random arguments other than the program's own.
    """
    drawn = program(seed, number)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "program.py").write_text(drawn.source)
    arguments = drawn.arguments(seed + number)
    with jax.enable_x64(drawn.is_wide):
        theirs = Peer(drawn.function, arguments)
        path = directory / "module.pb"
        path.write_bytes(theirs.serialized)
        (directory / "xla.input.txt").write_text(theirs.lowered.as_text("hlo"))
        (directory / "xla.optimised.txt").write_text(theirs.compiled.as_text() or "")
    for line in compile_file(path, directory / "ours", profile_to=directory / "ours"):
        print(line)
