"""Every parameter of every public function refuses other types by an error that names it."""

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import xla_client
from tests.unit.client.mistakes.cases import Values
from xla_client import lib, ops
from xla_client.programs.arguments.checked import _converter_of
from xla_contract.errors import InvalidArgumentError

NOT_CHECKED = {
    # Values of any kind.
    ("lib.loops.for_each_index", "initial"),
    ("lib.loops.while_loop", "initial"),
    ("ops.while_", "init"),
    # Variadic in two ways; checked by itself.
    ("ops.tuple", "elements"),
    ("ops.tuple", "builder"),
    ("ops.tuple", "more"),
}


class Wrong:
    """A value of a type that nothing takes."""


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    for name in ops.__all__:
        yield f"ops.{name}", getattr(ops, name)
    for module in lib.__all__:
        names = vars(getattr(lib, module))
        for name, function in names.items():
            own = getattr(function, "__module__", "") == f"xla_client.lib.{module}"
            if inspect.isfunction(function) and own and not name.startswith("_"):
                yield f"lib.{module}.{name}", function


FUNCTIONS = dict(functions())


def test_all_functions_are_there() -> None:
    assert len(FUNCTIONS) > 270
    assert {"lib.numpy_broadcasting.add", "lib.sorting.sort", "ops.exp"} <= set(FUNCTIONS)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_parameter_refuses_what_it_does_not_take(name: str) -> None:
    function = FUNCTIONS[name]
    parameters = inspect.signature(function).parameters
    for parameter in parameters:
        if (name, parameter) in NOT_CHECKED:
            continue
        args: list[Any] = []
        named: dict[str, Any] = {}
        for each in parameters.values():
            value = Wrong() if each.name == parameter else _right(each.annotation)
            if each.kind is each.KEYWORD_ONLY:
                named[each.name] = value
            else:
                args.append(value)
        with pytest.raises(InvalidArgumentError) as caught:
            function(*args, **named)
        sentence = str(caught.value)
        # Functions under a second name are called by their first.
        assert f".{name.rpartition('.')[2]}: {parameter}" in sentence
        assert "Wrong" in sentence


VALUES = Values()


@functools.cache
def _right(annotation: Any) -> Any:
    """A value that the annotation takes, by trying."""
    candidates = [
        None, VALUES.x, 1.5, 1, True, "f32", "same", "FFT", "EQ", "default", "signed", "f32[3]",
        "three_fry", "transpose", "NHWC,HWIO->NHWC", (1, 2), [True], [(0, 1)], [VALUES.x],
        ((0, 0), (0, 0)), VALUES.b, VALUES.add, xla_client.GatherDimensionNumbers(),
        xla_client.ScatterDimensionNumbers(), xla_client.PaddingConfig(), max,
    ]  # fmt: skip
    for candidate in candidates:
        try:
            _converter_of(annotation)("value", candidate)
        except InvalidArgumentError:
            continue
        if candidate is not None or "None" in str(annotation):
            return candidate
    raise AssertionError(annotation)
