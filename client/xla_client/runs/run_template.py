"""Requests of Run with small plain arrays sent along: all but the elements is written once."""

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xla_contract.types.literal import Array
from xla_contract.types.shape import Shape
from xla_contract.wire.literals.value_proto import is_plain


class RunTemplate:
    """The bytes of a run, into which the elements of its arguments are put.

    They are had from `encode`, which gives the request for arrays of the shapes of `parameters`,
    each sent along: there is no other text of what a request looks like. Arguments that take more
    than `max_bytes` together, or are no arrays as numpy has them, are not for templates.
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
        """Serialized bytes in front of the elements of each argument, and behind the last."""

    def request(self, arguments: Sequence[Any]) -> bytes | None:
        """The request; None if it is to be made by other means."""
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
        """The parts of a request with marks for elements; none where a mark is not found once."""
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
