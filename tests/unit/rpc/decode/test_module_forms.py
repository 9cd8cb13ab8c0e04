"""Programs as they are written down: what is refused before it is read."""

import pytest

from tests.corpus.hlo_text import VECTOR_LOOP
from xla_contract.errors import ResourceExhaustedError
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_server.rpc.decode import module_forms


def test_text_that_is_too_long_is_refused_with_what_to_send(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = extension_pb2.ModuleSource(hlo_text=VECTOR_LOOP)
    size = len(VECTOR_LOOP)
    monkeypatch.setattr(module_forms, "MAX_TEXT_CHARACTERS", size)
    assert module_forms.read_source(source)[0].computations
    monkeypatch.setattr(module_forms, "MAX_TEXT_CHARACTERS", size - 1)
    reported = f"may have {size - 1} characters, got {size}"
    with pytest.raises(ResourceExhaustedError, match=reported) as caught:
        module_forms.read_source(source)
    assert caught.value.hint == "Send the serialized module."
