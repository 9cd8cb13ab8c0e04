"""Arguments and results of programs as numpy's files, .npy and .npz."""

import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xla_contract.errors import InvalidArgumentError
from xla_contract.types.literal import Literal
from xla_contract.types.shape import ProgramShape, Shape
from xla_server.app.compile_tool.trial_run import drawn


def read_arguments(
    files: Sequence[Path], signature: ProgramShape, seed: int | None
) -> list[Literal]:
    """Return one literal for each parameter of a signature with layouts.

    A .npy has one array, an .npz has several. The arrays of an .npz belong to the parameters of
    their names if all are names of parameters, else to the next parameters, in the order of the
    file. A tuple takes an array for each of its leaves. Arguments that no file has are drawn at
    random from `seed`; None refuses this.

    Raises InvalidArgumentError for arrays that do not fit, too few and too many; OSError.
    """
    names = signature.parameter_names or tuple(f"p{n}" for n in range(len(signature.parameters)))
    by_name: dict[str, Any] = {}
    in_order: list[tuple[str, Any]] = []
    for file in files:
        arrays = list(_arrays(file))
        if file.suffix == ".npz" and {name for name, _ in arrays} <= set(names):
            by_name |= dict(arrays)
        else:
            in_order += [(str(file) if len(arrays) == 1 else f"{file}[{n}]", a) for n, a in arrays]
    random = None if seed is None else np.random.default_rng(seed)
    remaining = iter(in_order)
    literals = []
    for number, (name, shape) in enumerate(zip(names, signature.parameters, strict=True)):
        subject = f"parameter {number} ({name})"
        if name in by_name:
            literals.append(_literal(by_name.pop(name), shape, subject, name))
            continue
        literals.append(_next_literal(remaining, shape, subject, random))
    left = len(list(remaining)) + len(by_name)
    if left:
        wanted = sum(1 for shape in signature.parameters for _ in shape.leaves())
        raise InvalidArgumentError(
            f"there must be an array for each parameter, got {left} more than the {wanted} of "
            f"{signature}"
        )
    return literals


def require_outputs(files: Sequence[Path], result: Shape) -> None:
    """Raise InvalidArgumentError unless the files can take a result of this shape."""
    if not files or (len(files) == 1 and files[0].suffix == ".npz"):
        return
    for file in files:
        if file.suffix != ".npy":
            raise InvalidArgumentError(f"an output must be .npy or one .npz, got {file.name}")
    count = sum(leaf.is_array for leaf in result.leaves())
    if len(files) != count:
        raise InvalidArgumentError(
            f"there must be an output file for each result, or one .npz, got {len(files)} for "
            f"{result.without_layout()}"
        )


def write_results(files: Sequence[Path], result: Literal) -> None:
    """Write the arrays of a result, depth first, into files that `require_outputs` has taken.

    One .npz takes all, as result_0 and so on; others take one each. Raises OSError.
    """
    arrays = [np.asarray(leaf.actual) for leaf in leaves_of(result) if leaf.shape.is_array]
    if files[0].suffix == ".npz":
        named: dict[str, Any] = {f"result_{n}": array for n, array in enumerate(arrays)}
        np.savez(files[0], **named)
        return
    for file, array in zip(files, arrays, strict=True):
        np.save(file, array)


def leaves_of(literal: Literal) -> Iterator[Literal]:
    """Return the arrays and tokens of a literal, depth first."""
    if not literal.shape.is_tuple:
        yield literal
    for element in literal.elements:
        yield from leaves_of(element)


def _arrays(file: Path) -> Iterator[tuple[str, Any]]:
    """Return the arrays of a file with their names; that of an .npy is empty."""
    if file.suffix not in (".npy", ".npz"):
        raise InvalidArgumentError(f"an input must be .npy or .npz, got {file.name}")
    try:
        found: Any = np.load(file, allow_pickle=False)
        if file.suffix == ".npy":
            yield "", found
            return
        with found:
            for name in found.files:
                yield name, found[name]
    except (ValueError, EOFError, AttributeError, zipfile.BadZipFile) as error:
        raise InvalidArgumentError(f"{file}: it must be a file of numpy's, got {error}") from None


def _next_literal(
    remaining: Iterator[tuple[str, Any]],
    shape: Shape,
    subject: str,
    random: np.random.Generator | None,
) -> Literal:
    if shape.is_tuple:
        parts = [_next_literal(remaining, each, subject, random) for each in shape.tuple_shapes]
        return Literal.tuple_of(parts)
    if not shape.is_array:
        return Literal.token()
    name, array = next(remaining, ("", None))
    if array is not None:
        return _literal(array, shape, subject, name)
    if random is None:
        raise InvalidArgumentError(
            f"{subject} must have an --input, got none for {shape.without_layout()}; --random SEED "
            "makes values up"
        )
    return drawn(shape, random)


def _literal(array: Any, shape: Shape, subject: str, name: str) -> Literal:
    dtype = shape.element_type.dtype
    if array.dtype.kind == "V" and array.dtype.itemsize == dtype.itemsize:
        # numpy's files do not store the types of ml_dtypes.
        array = array.view(dtype)
    if array.dtype != dtype:
        raise InvalidArgumentError(
            f"{subject} must be {shape.without_layout()}, got {array.dtype}{list(array.shape)} of "
            f"{name}"
        )
    try:
        return Literal.from_numpy(array, shape)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"{subject} from {name}: {error.message}") from None
