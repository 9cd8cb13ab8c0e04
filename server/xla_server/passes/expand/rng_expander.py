"""rng in terms of random words and arithmetic. Semantics: ops/random/rng.py."""

import math

from xla_contract.ops.control.custom_call import CustomCallAttributes
from xla_contract.ops.random.rng import RandomDistribution
from xla_contract.ops.random.rng_bit_generator import RandomAlgorithm, RngBitGeneratorAttributes
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.custom_calls.targets import random_state
from xla_server.ir.module import HloInstruction
from xla_server.ops.random.rng import (
    LOW_WORD,
    STATE,
    computed_type,
    fraction_bits,
    step_below,
    words_of,
)
from xla_server.passes.framework.editor import Editor
from xla_server.passes.framework.formula import Term
from xla_server.passes.framework.rewrite_pass import RewritePass

_DRAWN = CustomCallAttributes(random_state.TARGET.name, STATE, has_side_effect=True)


class RngExpander(RewritePass):
    """Writes rng as a state, random words of that state, and numbers computed from the words."""

    name = "rng-expander"
    opcodes = (Opcode.RNG,)

    def _rule(self, i: HloInstruction, editor: Editor) -> HloInstruction | None:
        if not i.shape.is_static:
            return None
        if not i.shape.element_count:
            return editor.zeros(i.shape)
        numbers = _Numbers(editor, i)
        if i.shape.element_type.is_integer:
            return numbers.uniform_integers()
        if i.attributes.distribution is RandomDistribution.NORMAL:
            return numbers.normal()
        return numbers.uniform_floats()


class _Numbers:
    """The numbers of one instruction, in arrays of its dimensions."""

    def __init__(self, editor: Editor, i: HloInstruction) -> None:
        self._editor = editor
        self._sizes = i.shape.dimensions
        self._type = i.shape.element_type
        self._bounds = [Term(editor, operand) for operand in i.operands]
        self._shape = words_of(i.attributes.distribution, i.shape)
        state = editor.add(Opcode.CUSTOM_CALL, (), _DRAWN)
        # The state is drawn after the control predecessors of the numbers.
        state.control_predecessors = i.control_predecessors
        attributes = RngBitGeneratorAttributes(RandomAlgorithm.PHILOX, self._shape)
        drawn = editor.add(Opcode.RNG_BIT_GENERATOR, (state,), attributes)
        self._words = Term(editor, editor.element(drawn, 1))

    def uniform_integers(self) -> HloInstruction:
        """The lower bound plus the integer part of word / 2**64 times the range, modulo 2**64."""
        first, second = self._bounds
        low, high = (part.converted(ElementType.U64) for part in self._bounds)
        difference = high - low
        range_ = self._wide((first < second).choose(difference, difference.like(1)))
        if self._type.bit_width < 64:
            offset = self._high_product(self._words, range_)
        else:
            upper, lower = self._rows()
            product = upper * range_
            summed = product + self._high_product(lower, range_)
            carried = (summed < product).converted(ElementType.U64)
            offset = self._high_product(upper, range_) + carried
        return (offset + self._wide(low)).converted(self._type).instruction

    def uniform_floats(self) -> HloInstruction:
        """The bounds, interpolated by a random fraction."""
        low, high = (part.converted(computed_type(self._type)) for part in self._bounds)
        below = self._wide(self._below(high))
        low, high = self._wide(low), self._wide(high)
        fraction = self._fraction(self._words)
        mixed = low * (1 - fraction) + high * fraction
        # Rounding may reach the upper bound, or go below the lower one.
        mixed = (below < mixed).choose(below, mixed)
        return (mixed < low).choose(low, mixed).converted(self._type).instruction

    def _below(self, high: Term) -> Term:
        """The largest number of the result's type that is less than the upper bound."""
        scale, least = step_below(self._type)
        step = (high.apply(Opcode.ABS) * scale).apply(Opcode.MAXIMUM, least)
        return (high - step).converted(self._type).converted(computed_type(self._type))

    def normal(self) -> HloInstruction:
        """Box and Muller's normal numbers, scaled by the deviation and shifted to the mean."""
        computed = computed_type(self._type)
        mean, deviation = (self._wide(part.converted(computed)) for part in self._bounds)
        u, v = map(self._fraction, self._rows())
        square = (1 - u).apply(Opcode.LOG) * -2
        angle = v * (2 * math.pi)
        standard = square.apply(Opcode.SQRT) * angle.apply(Opcode.COSINE)
        return (mean + deviation * standard).converted(self._type).instruction

    def _fraction(self, words: Term) -> Term:
        """A multiple of a power of two in [0, 1), from the upper bits of a word."""
        computed = computed_type(self._type)
        bits = fraction_bits(computed)
        upper = words >> (self._shape.element_type.bit_width - bits)
        return upper.converted(computed) * 2.0**-bits

    def _high_product(self, a: Term, b: Term) -> Term:
        """The upper 64 bits of products of 64-bit numbers, from products of 32-bit ones."""
        (upper, lower), (b_upper, b_lower) = ((part >> 32, part & LOW_WORD) for part in (a, b))
        middle = upper * b_lower + (lower * b_lower >> 32)
        other = lower * b_upper + (middle & LOW_WORD)
        return upper * b_upper + ((middle >> 32) + (other >> 32))

    def _rows(self) -> list[Term]:
        """The words in two rows."""
        words = self._words.instruction
        return [Term(self._editor, self._editor.at(words, row)) for row in (0, 1)]

    def _wide(self, scalar: Term) -> Term:
        return Term(self._editor, self._editor.broadcast(scalar.instruction, (), self._sizes))
