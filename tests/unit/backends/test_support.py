import pytest

from tests.corpus.hlo_text import parse_hlo
from xla_contract.errors import UnimplementedError
from xla_server.backends.compiled.cpu import Cpu
from xla_server.backends.interpreter import Interpreter
from xla_server.backends.support import require_supported
from xla_server.custom_calls.builtin_targets import BUILTIN
from xla_server.custom_calls.target_registry import CustomCallRegistry
from xla_server.ir.importer import import_module
from xla_server.ir.module import HloModule

UNCALLED = {
    "custom call": """HloModule m
unused { x = f32[4] parameter(0)
  ROOT c = f32[4] custom-call(x), custom_call_target="nothing" }
ENTRY main { ROOT y = f32[4] parameter(0) }
""",
}


def module(name: str) -> HloModule:
    return import_module(parse_hlo(UNCALLED[name]))


@pytest.mark.parametrize("name", UNCALLED)
def test_computations_without_callers_must_be_supported(name: str) -> None:
    with pytest.raises(UnimplementedError):
        require_supported(module(name), BUILTIN)


def test_a_registered_target_is_supported() -> None:
    registry = CustomCallRegistry()
    registry.register_function("nothing", lambda x: x)
    require_supported(module("custom call"), registry)


@pytest.mark.parametrize("platform", [Cpu, Interpreter])
@pytest.mark.parametrize("name", UNCALLED)
def test_both_platforms_refuse_it(platform: type[Cpu] | type[Interpreter], name: str) -> None:
    program = module(name)
    with pytest.raises(UnimplementedError):
        platform().compile(program, program.entry_program_shape)
