import numpy as np

from tests.corpus.hlo_programs import program
from tests.corpus.hlo_text import parse_hlo
from xla_server.evaluator.interpret import evaluate
from xla_server.ir.importer import import_module


def run(parameters: list[str], root: str, *given: object) -> np.ndarray:
    result = evaluate(import_module(parse_hlo(program(parameters, root))), given, check_values=True)  # type: ignore[arg-type]
    assert isinstance(result, np.ndarray)
    return result


def test_a_sum_does_not_drift() -> None:
    tenths = np.full((2**20, 2), 0.1, np.float32)
    total = run(["f32[1048576,2]"], "f32[2] reduce(x0, z), dimensions={0}, to_apply=add", tenths)
    np.testing.assert_array_equal(
        total, np.full(2, np.float32(2**20 * np.float64(np.float32(0.1))))
    )


def test_a_maximum_is_nan_where_an_element_is() -> None:
    array = np.array([[1, np.nan], [3, -4]], np.float32)
    found = run(["f32[2,2]"], "f32[2] reduce(x0, z), dimensions={1}, to_apply=max", array)
    np.testing.assert_array_equal(found, np.array([np.nan, 3], np.float32))


def test_neighbours_keep_their_order() -> None:
    # The reducer gives its second parameter: what comes last must win, also of an odd number.
    array = np.arange(7, dtype=np.float32)
    assert run(["f32[7]"], "f32[] reduce(x0, z), dimensions={0}, to_apply=second", array) == 6
