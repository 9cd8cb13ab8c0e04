"""Mistakes that people make, with the error and a part of the sentence that each ends in."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from xla_client import Builder, Computation, ops
from xla_contract.errors import ArgumentTypeError, InvalidArgumentError, XlaError

TYPE, VALUE = ArgumentTypeError, InvalidArgumentError


class Values:
    """A program with values of several shapes to make mistakes with."""

    def __init__(self) -> None:
        self.b = Builder("program")
        self.x = self.b.parameter(0, "f32[2,3]", "x")
        self.v = self.b.parameter(1, "f32[3]", "v")
        self.s = self.b.parameter(2, "f32[]", "s")
        self.i = self.b.parameter(3, "s32[]", "i")
        self.p = self.b.parameter(4, "pred[]", "p")
        self.n = self.b.parameter(5, "s32[3]", "n")
        self.z = self.b.parameter(6, "c64[3]", "z")
        self.image = self.b.parameter(7, "f32[1,8,8,2]", "image")
        self.kernel = self.b.parameter(8, "f32[3,3,2,4]", "kernel")
        self.pair = ops.tuple(self.x, self.i)
        self.other = Builder("other").parameter(0, "f32[3]")

    @property
    def add(self) -> Computation:
        builder = Builder("add")
        return builder.build(builder.parameter(0, "f32[]") + builder.parameter(1, "f32[]"))


class Case(NamedTuple):
    """A mistake, the class of its error, and a pattern in its sentence."""

    make: Callable[[Values], Any]
    error: type[XlaError]
    pattern: str


ARRAY = np.zeros(3, np.float32)
