"""Functions of JAX as programs: parameters, constants, and what a call needs beside them."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xla_client.programs.jax_programs import JaxType, jax_module, jax_program
from xla_client.runs.donation import donated_parameters
from xla_contract.errors import UnimplementedError

ROW = jax.ShapeDtypeStruct((300,), np.float32)
LARGE = np.arange(90000, dtype=np.float32).reshape(300, 300)
KEY = jax.random.key(0)


def test_large_arrays_that_a_function_closes_over_come_first() -> None:
    matrix, small = jnp.asarray(LARGE), jnp.arange(300.0)

    def layer(unused: Any, x: Any) -> Any:
        return {"y": x @ matrix + small + LARGE[0]}

    program = jax_program(layer, {"unused": ROW, "x": ROW}, ["x"])
    assert program.constants == [matrix]
    assert str(program.computation.program_shape) == (
        "(p0: f32[300,300]{1,0}, p1: f32[300]{0}, p2: f32[300]{0}) -> f32[300]{0}"
    )
    assert program.computation.name == "jit_layer"
    assert donated_parameters(program.computation.proto) == {2}
    assert program.dtypes == [np.float32, np.float32]
    assert program.tree == jax.tree.structure({"y": 0})


@pytest.mark.parametrize("name", ["parameters", "arguments"])
def test_an_argument_may_have_any_name_beside_large_arrays(name: str) -> None:
    matrix = jnp.asarray(LARGE)

    def walk(**values: Any) -> Any:
        return values[name] @ matrix

    program = jax_program(walk, {name: ROW}, [name])
    assert program.constants == [matrix]
    assert donated_parameters(program.computation.proto) == {1}


def test_keys_stay_constants_and_arrays_in_loops_become_parameters() -> None:
    keys = jax.random.wrap_key_data(np.zeros((1 << 13, 2), np.uint32))
    matrix = jnp.asarray(LARGE)

    def walk(x: Any) -> Any:
        x, _ = jax.lax.scan(lambda x, _: (x @ matrix, None), x, None, length=2)
        return x + jax.random.uniform(keys[1])

    program = jax_program(walk, {"x": ROW}, [])
    assert program.constants == [matrix]


def test_types_that_elements_lack_are_stated() -> None:
    kinds: list[JaxType] = [((), KEY.dtype, False), ((), np.dtype(np.float32), True)]
    values = [jax.ShapeDtypeStruct(shape, dtype, weak_type=weak) for shape, dtype, weak in kinds]
    arguments = dict(zip(("key", "x"), values, strict=True))
    program = jax_program(lambda key, x: (x, key, jnp.float32(x)), arguments, [])
    assert program.dtypes == [None, np.float32]
    assert program.results == [*reversed(kinds), ((), np.float32, False)]
    assert str(program.computation.program_shape.result) == "(f32[], u32[2]{0}, f32[])"


def test_without_jax_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "jax", None)
    with pytest.raises(UnimplementedError, match=r"traced by JAX, got none: .*jax") as caught:
        jax_module()
    assert caught.value.hint == "pip install jax"
