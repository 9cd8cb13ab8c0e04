import numpy as np
import pytest

from tests.corpus.hlo_text import VECTOR_LOOP, parse_hlo
from xla_client import Builder
from xla_contract.types.literal import Literal
from xla_contract.types.shape import ProgramShape, Shape
from xla_server.ir.fingerprint import fingerprint
from xla_server.ir.importer import import_module


def of(text: str) -> bytes:
    module = import_module(parse_hlo(text))
    return fingerprint(module, module.entry_program_shape)


def test_names_and_metadata_do_not_matter() -> None:
    renamed = VECTOR_LOOP.replace("doubled", "twice").replace("HloModule loop", "HloModule other")
    marked = renamed.replace("add(v, v)", 'add(v, v), metadata={op_name="double"}')
    assert marked != VECTOR_LOOP
    assert of(marked) == of(VECTOR_LOOP)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("limit = s32[] constant(3)", "limit = s32[] constant(4)"),
        ("direction=LT", "direction=LE"),
        ("subtract(last, wide)", "subtract(wide, last)"),
        ("f32[4]", "f32[5]"),
        ("ROOT sum = f32[] add(a, b)", "ROOT sum = f32[] multiply(a, b)"),
        (
            "ROOT answer = f32[4] subtract(last, wide)",
            "ROOT wide.1 = f32[4] copy(wide)\n  answer = f32[4] subtract(last, wide)",
        ),
    ],
)
def test_what_changes_the_result_changes_the_fingerprint(old: str, new: str) -> None:
    assert old in VECTOR_LOOP
    assert of(VECTOR_LOOP.replace(old, new)) != of(VECTOR_LOOP)


def test_entry_layouts_count() -> None:
    module = import_module(parse_hlo("HloModule m\nENTRY e { ROOT x = f32[2,3] parameter(0) }"))
    rows = ProgramShape((Shape.parse("f32[2,3]{1,0}"),), Shape.parse("f32[2,3]{1,0}"))
    columns = ProgramShape((Shape.parse("f32[2,3]{0,1}"),), Shape.parse("f32[2,3]{1,0}"))
    assert fingerprint(module, rows) != fingerprint(module, columns)


def test_the_sizes_of_a_constant_count() -> None:
    def of_constant(size: int) -> bytes:
        builder = Builder("constant")
        literal = Literal.from_numpy(np.zeros(size, np.float32), Shape.parse("f32[<=3]"))
        module = import_module(builder.build(builder.constant(literal)).proto)
        return fingerprint(module, module.entry.program_shape)

    assert of_constant(1) != of_constant(2)
