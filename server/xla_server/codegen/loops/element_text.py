"""Elements of buffers as text of kernels written by hand, and computations applied to them."""

from collections.abc import Sequence

from xla_contract.element_type import ElementType
from xla_server.codegen.loops.scalar_builder import Named
from xla_server.codegen.loops.scalar_text import ScalarText, ScalarWriter
from xla_server.codegen.trace.elementwise import converted
from xla_server.codegen.trace.kernel_types import KERNEL_TYPE
from xla_server.codegen.trace.rules import RULES
from xla_server.codegen.trace.tracer import Tracer
from xla_server.ir.module import HloComputation


def load_text(element_type: ElementType, base: str, index: str, load: str = "load") -> str:
    """An expression for the computed value of an element; `load` is load, reload or peek."""
    kind = KERNEL_TYPE[element_type]
    return called(kind.widen, f"{load}_{kind.storage}({base}, {index})")


def store_text(
    element_type: ElementType, base: str, index: str, value: str, store: str = "store"
) -> str:
    """A statement that stores a computed value as an element; `store` is store or poke."""
    kind = KERNEL_TYPE[element_type]
    return f"{store}_{kind.storage}({base}, {index}, {called(kind.narrow, value)})"


def called(function: str | None, value: str) -> str:
    """Return the text of a conversion; that of the value where there is nothing to convert."""
    return value if function is None else f"{function}({value})"


def element_text(
    computation: HloComputation,
    arguments: Sequence[tuple[str, ElementType]],
    results: Sequence[ElementType],
    prefix: str = "s",
) -> ScalarText:
    """The text of a computation whose parameters and results may have types of their own.

    `arguments` are variables with computed values of an element type each, `results` the element
    types that the computation's results are converted to.
    """
    tracer = Tracer(RULES, {})
    given = [
        converted(
            tracer,
            Named(name, KERNEL_TYPE[element_type].computed),
            element_type,
            parameter.shape.element_type,
        )
        for (name, element_type), parameter in zip(arguments, computation.parameters, strict=True)
    ]
    shape = computation.root.shape
    shapes = shape.tuple_shapes if shape.is_tuple else (shape,)
    found = [
        converted(tracer, node, own.element_type, wanted)
        for node, own, wanted in zip(tracer.call(computation, given), shapes, results, strict=True)
    ]
    return ScalarWriter(prefix).text_of(found)
