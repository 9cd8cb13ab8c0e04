"""Private interfaces of grpcio, numba and llvmlite that the project uses.

Each must be as it was when its user was written. If a test here fails after an update, adapt the
module that uses the interface; until then pyproject.toml must exclude the new version.
"""

import ast
import contextlib
import dataclasses
import importlib
import importlib.metadata
import inspect
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import grpc
import llvmlite.binding as llvm
import pytest

from xla_server.codegen.compiler.kernel_compiler import target_machine
from xla_server.rpc.grpc_internals import FUNCTIONS, VALUES
from xla_server.target.machine import Machine

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PRESENT = None
"""The parameters of what need only be there."""

Names = Mapping[str, Sequence[str] | None]


@dataclasses.dataclass(frozen=True)
class Owner:
    """A module or an object whose private names are used; names may be dotted."""

    distribution: str
    text: str
    names: Names
    make: Callable[[], Any] | None = None
    """Makes an object of the class `text`; None for a module."""


def present(*names: str) -> Names:
    return dict.fromkeys(names)


def stream_stream() -> Any:
    with grpc.insecure_channel("localhost:1") as channel:
        return channel.stream_stream("/probe")


def context() -> Any:
    server: Any = importlib.import_module("grpc._server")
    return server._Context(None, None, None)


def pass_manager() -> Any:
    return llvm.create_pass_builder(
        target_machine(Machine.host()), llvm.create_pipeline_tuning_options()
    ).getModulePassManager()


OWNERS = (
    Owner("grpcio", "grpc._server", {**FUNCTIONS, **present(*VALUES)}),
    Owner("grpcio", "grpc._server._Context", present("_rpc_event", "_state"), context),
    Owner("grpcio", "grpc._observability", {"get_plugin": ()}),
    Owner(
        "grpcio",
        "grpc._channel._StreamStreamMultiCallable",
        present("_channel", "_context", "_method", "_registered_call_handle"),
        stream_stream,
    ),
    Owner(
        "grpcio",
        "grpc._cython.cygrpc",
        {
            "Channel.segregated_call": (
                *("self", "flags", "method", "host", "deadline", "metadata", "credentials"),
                *("operationses_and_tags", "context", "registered_call_handle"),
            ),
            "SegregatedCall.operate": ("self", "operations", "tag"),
            "SegregatedCall.next_event": ("self",),
            **present(
                "OperationType.receive_message",
                "OperationType.receive_status_on_client",
                "PropagationConstants.GRPC_PROPAGATE_DEFAULTS",
                "ReceiveInitialMetadataOperation",
                "ReceiveMessageOperation",
                "ReceiveStatusOnClientOperation",
                "SegregatedCall.cancel",
                "SendInitialMetadataOperation",
                "SendMessageOperation",
                "channelz_get_server_sockets",
                "channelz_get_servers",
                "channelz_get_top_channels",
            ),
        },
    ),
    Owner("numba", "numba.core.codegen", {"initialize_llvm": ()}),
    Owner("numba", "numba.core.config", present("LOOP_VECTORIZE", "SLP_VECTORIZE")),
    Owner("numba", "numba.core.dispatcher", present("Dispatcher")),
    Owner("numba", "numba.core.errors", present("NumbaNotImplementedError")),
    Owner("numba", "numba.core.registry", present("cpu_target.typing_context")),
    Owner(
        "llvmlite",
        "llvmlite.binding.ffi",
        present(
            "lib.LLVMPY_DisposeMemoryBuffer",
            "lib.LLVMPY_GetBufferSize",
            "lib.LLVMPY_GetBufferStart",
            "lib.LLVMPY_RunNewModulePassManager._cfn",
            "lib.LLVMPY_TargetMachineEmitToMemory._cfn",
            "OutputString",
        ),
    ),
    Owner("llvmlite", "llvmlite.binding", {"newpassmanagers.NewPassManager._dispose": ("self",)}),
    Owner(
        "llvmlite",
        "llvmlite.binding.newpassmanagers.ModulePassManager",
        {"detach": ()},
        pass_manager,
    ),
    Owner(
        "llvmlite",
        "llvmlite.ir",
        {
            "Function.descr": ("self", "buf"),
            "GlobalVariable.descr": ("self", "buf"),
            "IRBuilder._insert": ("self", "instr"),
            "instructions.GEPInstr.descr": ("self", "buf"),
        },
    ),
)


def difference(owner: Owner, name: str) -> str | None:
    """Describe the difference of an interface to the one that is used; None if there is none."""
    version = importlib.metadata.version(owner.distribution)
    changed = f"private interface {owner.text}.{name} of {owner.distribution} {version}"
    try:
        found = owner.make() if owner.make else importlib.import_module(owner.text)
        for part in name.split("."):
            found = getattr(found, part)
    except (AttributeError, ImportError, TypeError) as error:
        return f"{changed} must exist, got {error!r}"
    expected = owner.names[name]
    if expected is None:
        return None
    parameters = tuple(inspect.signature(found).parameters)
    if parameters == tuple(expected):
        return None
    return f"{changed} must have parameters {tuple(expected)}, got {parameters}"


INTERFACES = [
    pytest.param(owner, name, id=f"{owner.text}.{name}") for owner in OWNERS for name in owner.names
]


@pytest.mark.parametrize(("owner", "name"), INTERFACES)
def test_a_private_interface_is_as_it_was(owner: Owner, name: str) -> None:
    changed = difference(owner, name)
    assert changed is None, f"{changed}: adapt its users, or lower the bound in pyproject.toml"


def test_a_change_is_reported_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    server = importlib.import_module("grpc._server")
    with monkeypatch.context() as patch:
        patch.setattr(server, "_status", lambda event: None)
        text = difference(OWNERS[0], "_status")
        assert text is not None
        assert "grpc._server._status of grpcio" in text
        assert "got ('event',)" in text
        patch.delattr(server, "_OPEN")
        assert "_OPEN of grpcio" in str(difference(OWNERS[0], "_OPEN"))
    assert difference(OWNERS[0], "_status") is None


def sources() -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted([*ROOT.glob("server/**/*.py"), *ROOT.glob("client/**/*.py")]):
        yield path, ast.parse(path.read_text())


def test_every_private_module_that_is_imported_is_listed() -> None:
    listed = {f"{owner.text}.{name}" for owner in OWNERS for name in owner.names}
    for path, tree in sources():
        for node in ast.walk(tree):
            names = []
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("numba.core"):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            if isinstance(node, ast.Constant) and str(node.value).startswith("grpc._"):
                names = [str(node.value)]
            for name in names:
                assert any(each == name or each.startswith(f"{name}.") for each in listed), path


def test_every_interface_is_used() -> None:
    used = set()
    for _, tree in sources():
        for node in ast.walk(tree):
            with contextlib.suppress(AttributeError):
                used.add(node.attr if isinstance(node, ast.Attribute) else node.name)  # type: ignore[attr-defined]
            if isinstance(node, ast.Constant):
                used.add(node.value)
            if isinstance(node, ast.ImportFrom):
                used.update(alias.name for alias in node.names)
    for owner in OWNERS:
        assert {name.rpartition(".")[2] for name in owner.names} <= used, owner.text


@pytest.mark.parametrize("distribution", sorted({owner.distribution for owner in OWNERS}))
def test_versions_whose_interfaces_are_not_known_are_excluded(distribution: str) -> None:
    required = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["server"]]
    (requirement,) = (each for each in required if each.startswith(f"{distribution}>="))
    upper = requirement.partition("<")[2]
    major, minor, *_ = map(int, importlib.metadata.version(distribution).split("."))
    assert upper == f"{major}.{minor + 1}", "known: the installed version and its patches"
