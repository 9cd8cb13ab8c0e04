"""One operation in HLO text, read by jaxlib and run by our evaluators."""

from collections.abc import Sequence
from typing import Any

from tests.checked_evaluation import evaluate_checked
from tests.corpus.hlo_programs import program
from tests.corpus.hlo_text import parse_hlo
from xla_server.ir.exporter import export_module
from xla_server.ir.importer import import_module
from xla_server.ir.verification.verifier import verify


def run_text(
    parameters: Sequence[str],
    root: str,
    arguments: Sequence[Any],
    before: Sequence[str] = (),
    **ids: int,
) -> Any:
    """The value of the root instruction `root` over parameters x0, x1 ... and those `before` it.

    The module must come back from our writer as it was read.
    """
    proto = parse_hlo(program(list(parameters), root, *before))
    module = import_module(proto)
    verify(module)
    written = export_module(module)
    for ours, theirs in zip(written.computations, proto.computations, strict=True):
        assert list(ours.instructions) == list(theirs.instructions)
    return evaluate_checked(module, arguments, **ids)  # type: ignore[arg-type]
