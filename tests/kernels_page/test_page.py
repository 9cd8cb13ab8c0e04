import difflib

import pytest

from tests.kernels_page.blocks import BLOCKS, MACHINE_CODE, names_of, refreshed
from tests.kernels_page.page import PATH
from tests.processors import assembles

PAGE = PATH.read_text(encoding="utf-8")


def _assert_same(now: str) -> None:
    lines = difflib.unified_diff(
        PAGE.splitlines(), now.splitlines(), PATH.name, "now", lineterm="", n=1
    )
    assert now == PAGE, "\n".join(["the page changed; `make golden` writes these:", *lines])


def test_the_page_says_what_the_compiler_prints() -> None:
    _assert_same(refreshed(PAGE, kept=MACHINE_CODE))


@assembles
def test_the_page_says_what_llvm_makes_of_it() -> None:
    _assert_same(refreshed(PAGE))


def test_every_step_is_on_the_page_once_and_in_order() -> None:
    assert names_of(PAGE) == list(BLOCKS)


def test_a_block_of_another_text_is_printed_anew() -> None:
    assert refreshed(PAGE.replace("fdiv", "fmul"), kept=MACHINE_CODE) == PAGE
    with pytest.raises(KeyError, match="unknown"):
        refreshed("<!-- printed: unknown -->\n```\n```\n")
