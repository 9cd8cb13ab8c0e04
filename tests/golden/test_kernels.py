import difflib

import pytest

from tests.golden.kernels import HERE, PROGRAMS, generated, kept


@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_are_what_they_were(name: str) -> None:
    """Where a change is meant, `make golden` writes it down."""
    before, now = kept(name).read_text(), generated(name)
    lines = difflib.unified_diff(
        before.splitlines(), now.splitlines(), f"{name}.kernels", "now", lineterm=""
    )
    assert before == now, "\n".join(["the kernels changed; `make golden` keeps these:", *lines])


def test_nothing_is_kept_without_a_program() -> None:
    assert {path.stem for path in HERE.glob("*.kernels")} == set(PROGRAMS)
