"""The command that checks a GPU, on the twin: whatever fails in it hides nothing else."""

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cuda import device_check
from tests.cuda.checks.outcomes import Status, assert_bits, assert_near, outcomes


def test_a_group_is_checked_and_its_failures_are_written(tmp_path: Path) -> None:
    out = tmp_path / "found.json"
    words = ["--platform", "cuda-twin", "--only", "driver", "--out", str(out)]
    assert device_check.main(words) == 0
    found = json.loads(out.read_text())
    assert found["failures"] == {"driver": []}
    assert found["counts"]["driver"]["ok"] > 0


def test_a_group_whose_process_fails_is_reported() -> None:
    end = time.monotonic() + 60
    *_, ended, _ = device_check._in_process("no such group", "cuda-twin", end)
    assert ended["status"] == "raised"
    assert "ended with 1" in ended["text"]


def test_what_a_check_raises_is_its_outcome() -> None:
    one, other = np.float32([1]), np.float32([np.nextafter(np.float32(1), np.float32(2))])

    def lost() -> None:
        raise OSError("gone")

    checks = [
        ("ok", lambda: assert_near([one], [other])),
        ("bits", lambda: assert_bits([one], [other])),
        ("wrong", lambda: assert_near([one], [2 * other])),
        ("raised", lost),
    ]
    assert [each.status for each in outcomes(checks)] == list(map(Status, dict(checks)))


@pytest.mark.parametrize("dtype", [np.int32, np.float32, np.complex64])
def test_near_results_have_one_form(dtype: Any) -> None:
    x = np.ones(3, dtype)
    assert_near([x], [x])
    for other in (x[:2], x.astype(np.complex128), x + x):
        with pytest.raises(AssertionError, match="result 0"):
            assert_near([x], [other])
