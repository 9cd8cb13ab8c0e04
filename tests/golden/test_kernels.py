import difflib

import pytest

from tests.golden.kernels import HERE, PROGRAMS, WIDTHS, generated, kept


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_are_what_they_were(name: str, width: str) -> None:
    """Where a change is meant, `make golden` writes it down."""
    before, now = kept(name, width).read_text(), generated(name, width)
    lines = difflib.unified_diff(
        before.splitlines(), now.splitlines(), kept(name, width).name, "now", lineterm=""
    )
    assert before == now, "\n".join(["the kernels changed; `make golden` keeps these:", *lines])


def test_nothing_is_kept_without_a_program() -> None:
    assert {path.name.split(".")[0] for path in HERE.glob("*.kernels")} == set(PROGRAMS)
