"""Vectors of floats in functions written straight in LLVM's language."""

from typing import Any

from llvmlite import ir

_WORD, _NUMBER = ir.IntType(64), ir.IntType(32)
_ELEMENT = {"f32": ir.FloatType(), "f64": ir.DoubleType()}
_WIDTH = {"f32": 4, "f64": 8}


class Vectors:
    """Writes operations on vectors of so many lanes at a builder's place. Addresses are int64."""

    def __init__(self, builder: Any, kind: str, lanes: int) -> None:
        self.kind = kind
        self._builder = builder
        self._lanes = lanes
        self._width = _WIDTH[kind]
        self.form = ir.VectorType(_ELEMENT[kind], lanes)
        self.zero = ir.Constant(self.form, None)

    def constant(self, value: float) -> Any:
        """The same number in all lanes."""
        return ir.Constant(self.form, [value] * self._lanes)

    def mask(self, count: Any, place: int) -> Any:
        """Which lanes of the vector that begins with element `place` are of the first `count`."""
        b = self._builder
        form = ir.VectorType(_NUMBER, self._lanes)
        places = ir.Constant(form, list(range(place, place + self._lanes)))
        return b.icmp_signed("<", places, self.splat(b.trunc(count, _NUMBER)))

    def splat(self, value: Any) -> Any:
        """A number in all lanes."""
        b = self._builder
        form = ir.VectorType(value.type, self._lanes)
        single = b.insert_element(ir.Constant(form, ir.Undefined), value, ir.Constant(_NUMBER, 0))
        zeros = ir.Constant(ir.VectorType(_NUMBER, self._lanes), None)
        return b.shuffle_vector(single, ir.Constant(form, ir.Undefined), zeros)

    def element(self, address: Any) -> Any:
        """The number at an address."""
        b = self._builder
        return b.load(b.inttoptr(address, ir.PointerType(self.form.element)))

    def load(self, address: Any, mask: Any = None) -> Any:
        """A vector in memory, zero in lanes that are not in the mask."""
        pointer = self._builder.inttoptr(address, ir.PointerType(self.form))
        if mask is None:
            return self._builder.load(pointer, align=self._width)
        align = ir.Constant(_NUMBER, self._width)
        return self._called("llvm.masked.load.{}.p0", self.form, pointer, align, mask, self.zero)

    def store(self, value: Any, address: Any, mask: Any = None) -> None:
        """Put a vector, or its lanes that are in the mask, into memory."""
        pointer = self._builder.inttoptr(address, ir.PointerType(self.form))
        if mask is None:
            self._builder.store(value, pointer, align=self._width)
            return
        align = ir.Constant(_NUMBER, self._width)
        self._called("llvm.masked.store.{}.p0", ir.VoidType(), value, pointer, align, mask)

    def fma(self, x: Any, y: Any, z: Any) -> Any:
        """x * y + z, rounded once."""
        return self._called("llvm.fma.{}", self.form, x, y, z)

    def _called(self, name: str, result: Any, *args: Any) -> Any:
        """The result of an LLVM intrinsic on vectors."""
        b = self._builder
        full = name.format(f"v{self._lanes}f{8 * self._width}")
        function = b.module.globals.get(full)
        if function is None:
            form = ir.FunctionType(result, [arg.type for arg in args])
            function = ir.Function(b.module, form, full)
        return b.call(function, args)
