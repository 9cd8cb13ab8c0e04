"""Random code of kernels, copies, loops and switches, whose values are written before all reads."""

import random

from xla_contract.types.shape import Shape
from xla_server.buffers.code import (
    Branch,
    Code,
    CopyThunk,
    Jump,
    KernelThunk,
    Label,
    Switch,
    Thunk,
    Value,
)
from xla_server.codegen.kernel_ir.kernel import Kernel

EMPTY = Kernel((), (), ())
SHAPES = tuple(Shape.parse(f"f32[{size}]") for size in (16, 16, 16, 32, 48, 0))


class RandomCode:
    """Builds code from a seed; `make` returns it."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._thunks: list[Thunk] = []
        self._count = 0

    def make(self) -> Code:
        """Return code of up to four parameters and constants, and three results."""
        parameters = [self._value() for _ in range(self._chance.randrange(1, 4))]
        constants = {self._value(): None for _ in range(self._chance.randrange(2))}
        found = self._block([*parameters, *constants], 0, self._chance.randrange(1, 12))
        return Code(self._thunks, parameters, constants, self._chance.choices(found, k=3))

    def _value(self, like: Value | None = None) -> Value:
        self._count += 1
        shape = like.shape if like else self._chance.choice(SHAPES)
        return Value(shape, f"v{self._count}")

    def _copied(self, values: list[Value]) -> Value:
        source = self._chance.choice(values)
        target = self._value(source)
        self._thunks.append(CopyThunk(target, source))
        return target

    def _block(self, values: list[Value], depth: int, count: int) -> list[Value]:
        """Append thunks that read the values, and return these and the values written."""
        values = [*values]
        parts = (self._kernel, self._kernel, self._update, self._loop, self._switch)
        for _ in range(count):
            part = self._chance.choice(parts if depth < 4 else parts[:3])
            values += part(values, depth)
        return values

    def _kernel(self, values: list[Value], _depth: int) -> list[Value]:
        reads = tuple(dict.fromkeys(self._chance.choices(values, k=2)))
        likes = [None, *reads]
        writes = [
            self._value(self._chance.choice(likes)) for _ in range(self._chance.choice((1, 2)))
        ]
        pairs = [(target, source) for target in writes for source in reads]
        in_place = tuple(
            (target, source)
            for target, source in pairs
            if target.byte_size == source.byte_size and self._chance.random() < 0.5
        )
        arguments = (*reads, *writes)
        self._thunks.append(
            KernelThunk(f"k{self._count}", EMPTY, 1, 1, arguments, reads, tuple(writes), in_place)
        )
        return writes

    def _update(self, values: list[Value], depth: int) -> list[Value]:
        part, target = self._chance.choice(values), self._copied(values)
        self._thunks.append(
            KernelThunk(
                f"u{depth}", EMPTY, 1, 1, (part, target), (part,), (target,), updates=(target,)
            )
        )
        return [target]

    def _loop(self, values: list[Value], depth: int) -> list[Value]:
        states = [self._copied(values) for _ in range(self._chance.randrange(1, 4))]
        begin, end, goes_on = Label("begin"), Label("end"), self._value()
        arguments, read = (states[0], goes_on), states[:1]
        test = KernelThunk("test", EMPTY, 1, 1, arguments, (*read,), (goes_on,))
        self._thunks += [begin, test, Branch(goes_on, end)]
        inner = self._block([*values, *states], depth + 1, self._chance.randrange(5))
        for state in states:
            others = [value for value in inner if value.shape == state.shape and value is not state]
            if others:
                self._thunks.append(CopyThunk(state, self._chance.choice(others[-4:])))
        self._thunks += [Jump(begin), end]
        return states

    def _switch(self, values: list[Value], depth: int) -> list[Value]:
        labels, end = [Label("branch") for _ in range(self._chance.randrange(2, 4))], Label("end")
        self._thunks.append(Switch(self._chance.choice(values), tuple(labels)))
        result = self._value(self._chance.choice(values))
        for label in labels:
            self._thunks.append(label)
            inner = self._block(values, depth + 1, self._chance.randrange(4))
            same = [value for value in inner if value.shape == result.shape]
            self._thunks.append(CopyThunk(result, self._chance.choice(same[-4:])))
            if label is not labels[-1]:
                self._thunks.append(Jump(end))
        self._thunks.append(end)
        return [result]
