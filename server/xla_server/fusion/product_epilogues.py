"""Epilogues of products that a library computes on elements in registers.

Semantics: XLA's GPU backend, GemmRewriter, which finds the same forms.
"""

import dataclasses
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from xla_contract.ops.control.fusion import FusionKind
from xla_contract.types.opcode import Opcode
from xla_server.fusion.analysis.fusible import is_fusible
from xla_server.fusion.analysis.gelu import constant_of, gelu_parts
from xla_server.fusion.fused_body import FusedBody, replace
from xla_server.ir.module import HloComputation, HloInstruction, HloModule
from xla_server.passes.framework.editor import Editor, users
from xla_server.target.gpu.epilogue import NO_EPILOGUE, Activation, Epilogue


@dataclasses.dataclass(frozen=True, slots=True)
class ProductChain:
    """A dot and the instructions after it, up to `last`, that one epilogue computes.

    `inside` are the instructions after the dot, and the constants that they read. The addend has
    the elements of the product in order, under any dimensions.
    """

    last: HloInstruction
    epilogue: Epilogue = NO_EPILOGUE
    addend: HloInstruction | None = None
    bias: HloInstruction | None = None
    inside: tuple[HloInstruction, ...] = ()

    def followed(
        self,
        last: HloInstruction,
        others: Collection[HloInstruction] = (),
        *,
        addend: HloInstruction | None = None,
        bias: HloInstruction | None = None,
        **fields: Any,
    ) -> "ProductChain":
        """Return the chain with one more instruction and others that it reads.

        `fields` are those of the epilogue that it changes.
        """
        return ProductChain(
            last,
            dataclasses.replace(self.epilogue, **fields),
            addend or self.addend,
            bias or self.bias,
            (*self.inside, *others, last),
        )


class ProductChains:
    """The chains after the dots of a computation."""

    def __init__(self, computation: HloComputation) -> None:
        self._root = computation.root
        self._readers: Mapping[HloInstruction, Sequence[HloInstruction]] = users(computation)
        self._taken: set[HloInstruction] = set()
        self._stored: set[HloInstruction] = set()

    def take(self, dot: HloInstruction) -> ProductChain:
        """Remove and return the longest chain after a dot; later chains do not overlap with it.

        Each instruction but the last has only the next one as its reader, so no addend depends on
        the product.
        """
        found = longest = ProductChain(dot)
        columns, batch = dot.shape.dimensions[-1:], math.prod(dot.shape.dimensions[:-2])
        while True:
            longer = next(self._longer(found, columns), None)
            if longer is None or longer.epilogue.problem(dot.shape.element_type, batch) is not None:
                break
            found = longer
            # A reshape at the end moves no data, and may stay outside.
            longest = longest if found.last.opcode is Opcode.RESHAPE else found
        self._taken.update(longest.inside)
        self._stored.add(longest.last)
        return longest

    def _longer(self, chain: ProductChain, columns: tuple[int, ...]) -> Iterator[ProductChain]:
        """Yield the chain with the next instruction, if an epilogue can compute it."""
        last, epilogue, readers = chain.last, chain.epilogue, self._readers[chain.last]
        if last is self._root or epilogue.activation is not Activation.NONE or not readers:
            return
        if self._taken.intersection(readers) or any(i.control_predecessors for i in readers):
            return
        if len(readers) > 1:
            yield from self._gelu(chain)
            return
        (i,) = readers
        if i.opcode is Opcode.RESHAPE:
            yield chain.followed(i)
        if len(i.operands) != 2 or i.operands[0] is i.operands[1]:
            return
        is_left = i.operands[0] is last
        other = i.operands[is_left]
        constant, is_bare = constant_of(other), not epilogue.weight and not epilogue.has_bias
        if i.opcode is Opcode.MULTIPLY and constant is not None and is_bare:
            yield chain.followed(i, [other], scale=epilogue.scale * constant)
        elif i.opcode is Opcode.MAXIMUM and constant == 0 and math.copysign(1, constant) > 0:
            yield chain.followed(i, [other], activation=Activation.RELU)
        elif i.opcode is Opcode.ADD and not epilogue.has_bias and _is_bias(other, columns):
            yield chain.followed(i, [other], bias=other.operands[0], has_bias=True)
        elif not epilogue.weight and self._is_stored(other):
            if i.opcode is Opcode.ADD or (i.opcode is Opcode.SUBTRACT and is_left):
                weight = 1.0 if i.opcode is Opcode.ADD else -1.0
                yield chain.followed(i, addend=other, weight=weight)
            elif i.opcode is Opcode.SUBTRACT and is_bare:
                yield chain.followed(i, addend=other, weight=1.0, scale=-epilogue.scale)

    def _is_stored(self, i: HloInstruction) -> bool:
        """Return whether an array is in memory in any case, and not computed inside a kernel."""
        while i.opcode is Opcode.RESHAPE:
            (i,) = i.operands
        return i in self._stored or i.opcode is Opcode.CONSTANT or not is_fusible(i)

    def _gelu(self, chain: ProductChain) -> Iterator[ProductChain]:
        """Yield the chain with a gelu after it, if only that reads its last instruction."""
        for i in self._readers[chain.last]:
            inside = gelu_parts(i, chain.last)
            between = [chain.last, *(part for part in inside if constant_of(part) is None)]
            if inside and all({*self._readers[part]} <= {*inside, i} for part in between):
                yield chain.followed(i, inside, activation=Activation.GELU)


def _is_bias(i: HloInstruction, columns: tuple[int, ...]) -> bool:
    """Return whether an instruction repeats a vector for each row of a product."""
    return (
        i.opcode is Opcode.BROADCAST
        and i.attributes.dimensions == (i.shape.rank - 1,)
        and i.operands[0].shape.dimensions == columns
    )


@dataclasses.dataclass(frozen=True)
class ProductEpilogues:
    """Fuses a dot with scale, sum, bias and activation after it, as far as one call computes them.

    Runs before loop fusion, which would move them into the loops of their readers.
    """

    name: str = "product-epilogues"

    def apply(self, module: HloModule) -> bool:
        """Fuse in the entry and in the computations of its loops and branches."""
        changed = [self._fuse(module, computation) for computation in module.sequential()]
        return any(changed)

    def _fuse(self, module: HloModule, computation: HloComputation) -> bool:
        editor, chains = Editor(module), ProductChains(computation)
        order = {i: number for number, i in enumerate(computation.instructions)}
        replaced: dict[HloInstruction, HloInstruction] = {}
        for dot in computation.instructions:
            if dot.opcode is not Opcode.DOT or dot.control_predecessors:
                continue
            chain = chains.take(dot)
            if not chain.inside:
                continue
            body, copies = FusedBody(editor), dict[HloInstruction, HloInstruction]()
            # Constants that are scalars are copied where they are read.
            inside = (i for i in {dot, *chain.inside} if i.opcode is not Opcode.CONSTANT)
            for i in sorted(inside, key=order.__getitem__):
                (copies[i],) = body.fuse(i, copies)
            last = chain.last
            (replaced[last],) = body.fusion([copies[last]], last.name, FusionKind.OUTPUT)
        replace(module, computation, replaced, editor)
        return bool(replaced)
