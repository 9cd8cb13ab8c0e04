"""Templates of Run requests with small arrays: only the elements differ between runs."""

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xla_contract.types.literal import Array
from xla_contract.types.shape import Shape
from xla_contract.wire.literals.value_proto import is_plain


class RunTemplate:
    """A serialized request of a run, into which the elements of its arguments are inserted.

    The template is made from the result of `encode`, which returns the request for arrays of the
    shapes of `parameters`, all in the message; so no other code knows the form of a request. There
    is no template for arguments that take more than `max_bytes` together, or that are no arrays in
    numpy's own form.
    """

    def __init__(
        self,
        parameters: Sequence[Shape],
        encode: Callable[[Sequence[Array]], bytes],
        max_bytes: int,
    ) -> None:
        self._encode = encode
        self._wanted = [
            (shape.element_type.dtype, shape.dimensions)
            for shape in parameters
            if shape.is_array and is_plain(shape.with_default_layout())
        ]
        byte_size = sum(shape.byte_size for shape in parameters)
        self._is_fit = len(self._wanted) == len(parameters) and byte_size <= max_bytes
        self._parts: list[bytes] | None = None
        """Serialized bytes before the elements of each argument, and after those of the last."""

    def request(self, arguments: Sequence[Any]) -> bytes | None:
        """Return the request; None if the arguments do not fit the template."""
        if not self._is_fit or len(arguments) != len(self._wanted):
            return None
        for argument, (dtype, dimensions) in zip(arguments, self._wanted, strict=True):
            if type(argument) is not np.ndarray:
                return None
            if argument.dtype != dtype or argument.shape != dimensions:
                return None
        if self._parts is None:
            self._parts = self._found_parts()
            self._is_fit = bool(self._parts)
            return self.request(arguments)
        pieces = [self._parts[0]]
        for argument, part in zip(arguments, self._parts[1:], strict=True):
            pieces += (argument.tobytes(), part)
        return b"".join(pieces)

    def _found_parts(self) -> list[bytes]:
        """Split a request at its elements, which are random marks; [] unless each occurs once."""
        marks = [
            np.frombuffer(os.urandom(dtype.itemsize * int(np.prod(dimensions))), dtype)
            for dtype, dimensions in self._wanted
        ]
        arrays = [
            mark.reshape(dimensions)
            for mark, (_, dimensions) in zip(marks, self._wanted, strict=True)
        ]
        rest = self._encode(arrays)
        parts = []
        for mark in marks:
            data = mark.tobytes()
            if not data or rest.count(data) != 1:
                return []
            before, _, rest = rest.partition(data)
            parts.append(before)
        return [*parts, rest]
