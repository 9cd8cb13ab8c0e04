"""Every mistake ends in an error of ours, at the call, with a sentence that says what is taken."""

import re

import pytest

from tests.unit.client.mistakes import functions, programs
from tests.unit.client.mistakes.cases import Case, Values
from xla_contract.errors import XlaError

TABLES = [
    getattr(module, name) for module in (programs, functions) for name in dir(module)
    if name.isupper() and isinstance(getattr(module, name), tuple)
]  # fmt: skip
CASES: list[Case] = [case for table in TABLES for case in table]
RAW = re.compile(r"'\w+' object (has no attribute|is not|does not)|unsupported operand|<object")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.pattern)
def test_a_mistake_has_an_error_with_a_sentence(case: Case) -> None:
    with pytest.raises(XlaError) as caught:
        case.make(Values())
    assert type(caught.value) is case.error, caught.value
    sentence = str(caught.value)
    assert re.search(case.pattern, sentence), sentence
    assert len(sentence.split()) > 4
    assert "\n" not in sentence
    assert not RAW.search(sentence), sentence
