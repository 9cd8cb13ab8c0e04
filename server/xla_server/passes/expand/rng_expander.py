"""rng in terms of random words and arithmetic. Semantics: ops/random/rng.py."""

import math

from xla_contract.ops.control.custom_call import CustomCallAttributes
from xla_contract.ops.elementwise.compare import ComparisonDirection
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
from xla_server.passes.framework.rewrite_pass import RewritePass

_Made = HloInstruction

_DRAWN = CustomCallAttributes(random_state.TARGET.name, STATE, has_side_effect=True)


class RngExpander(RewritePass):
    """Writes rng as a state drawn for it, the words of that state, and numbers made of them."""

    name = "rng-expander"
    opcodes = (Opcode.RNG,)

    def _rule(self, i: HloInstruction, editor: Editor) -> HloInstruction | None:
        if not i.shape.is_static:
            return None
        if not i.shape.element_count:
            return editor.empty(i.shape)
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
        self._first, self._second = i.operands
        self._shape = words_of(i.attributes.distribution, i.shape)
        state = editor.add(Opcode.CUSTOM_CALL, (), _DRAWN)
        # The state is drawn after the control predecessors of the numbers.
        state.control_predecessors = i.control_predecessors
        attributes = RngBitGeneratorAttributes(RandomAlgorithm.PHILOX, self._shape)
        self._words = editor.element(editor.add(Opcode.RNG_BIT_GENERATOR, (state,), attributes), 1)

    def uniform_integers(self) -> HloInstruction:
        """Words as fractions times the range, whole, and the lower bound added modulo 2**64."""
        word = ElementType.U64
        low, high = (self._editor.convert(part, word) for part in (self._first, self._second))
        is_range = self._editor.compare(self._second, self._first, ComparisonDirection.GT)
        difference = self._add(Opcode.SUBTRACT, high, low)
        one = self._editor.constant(1, word)
        range_ = self._wide(self._add(Opcode.SELECT, is_range, difference, one))
        if self._type.bit_width < 64:
            offset = self._high_product(self._words, range_)
        else:
            upper, lower = self._rows()
            product = self._add(Opcode.MULTIPLY, upper, range_)
            summed = self._add(Opcode.ADD, product, self._high_product(lower, range_))
            carried = self._editor.compare(summed, product, ComparisonDirection.LT)
            offset = self._add(
                Opcode.ADD,
                self._high_product(upper, range_),
                self._editor.convert(carried, word),
            )
        return self._editor.convert(self._add(Opcode.ADD, offset, self._wide(low)), self._type)

    def uniform_floats(self) -> HloInstruction:
        """The lower bound and the upper one, weighed by a fraction and what it lacks."""
        computed = computed_type(self._type)
        bounds = self._bounds(computed)
        below = self._wide(self._below(bounds[1]))
        low, high = map(self._wide, bounds)
        fraction = self._fraction(self._words)
        rest = self._add(Opcode.SUBTRACT, self._full(1, computed), fraction)
        mixed = self._add(
            Opcode.ADD,
            self._add(Opcode.MULTIPLY, low, rest),
            self._add(Opcode.MULTIPLY, high, fraction),
        )
        # Rounding may reach the upper bound, or go below the lower one.
        is_over = self._editor.compare(mixed, below, ComparisonDirection.GT)
        mixed = self._add(Opcode.SELECT, is_over, below, mixed)
        is_under = self._editor.compare(mixed, low, ComparisonDirection.LT)
        return self._editor.convert(self._add(Opcode.SELECT, is_under, low, mixed), self._type)

    def _below(self, high: _Made) -> _Made:
        """The largest number of the result's type that is less than the upper bound."""
        computed = high.shape.element_type
        scale, least = (
            self._editor.constant(number, computed) for number in step_below(self._type)
        )
        size = self._add(Opcode.MULTIPLY, self._add(Opcode.ABS, high), scale)
        step = self._add(Opcode.MAXIMUM, size, least)
        exact = self._add(Opcode.SUBTRACT, high, step)
        return self._editor.convert(self._editor.convert(exact, self._type), computed)

    def normal(self) -> HloInstruction:
        """Box and Muller's, times the deviation and moved to the mean."""
        computed = computed_type(self._type)
        mean, deviation = (self._wide(part) for part in self._bounds(computed))
        u, v = map(self._fraction, self._rows())
        rest = self._add(Opcode.SUBTRACT, self._full(1, computed), u)
        square = self._add(Opcode.MULTIPLY, self._full(-2, computed), self._add(Opcode.LOG, rest))
        angle = self._add(Opcode.MULTIPLY, self._full(2 * math.pi, computed), v)
        standard = self._add(
            Opcode.MULTIPLY, self._add(Opcode.SQRT, square), self._add(Opcode.COSINE, angle)
        )
        scaled = self._add(Opcode.MULTIPLY, deviation, standard)
        return self._editor.convert(self._add(Opcode.ADD, mean, scaled), self._type)

    def _bounds(self, computed: ElementType) -> list[_Made]:
        return [self._editor.convert(part, computed) for part in (self._first, self._second)]

    def _fraction(self, words: _Made) -> _Made:
        """A multiple of a power of two in [0, 1), from the upper bits of a word."""
        word, computed = self._shape.element_type, computed_type(self._type)
        bits = fraction_bits(computed)
        shift = self._full(word.bit_width - bits, word)
        upper = self._editor.convert(self._add(Opcode.SHIFT_RIGHT_LOGICAL, words, shift), computed)
        return self._add(Opcode.MULTIPLY, upper, self._full(2.0**-bits, computed))

    def _high_product(self, a: _Made, b: _Made) -> _Made:
        """The upper 64 bits of products of 64 bits, made of products of 32."""
        upper, lower, b_upper, b_lower = self._high(a), self._low(a), self._high(b), self._low(b)
        middle = self._add(
            Opcode.ADD,
            self._add(Opcode.MULTIPLY, upper, b_lower),
            self._high(self._add(Opcode.MULTIPLY, lower, b_lower)),
        )
        other = self._add(Opcode.ADD, self._add(Opcode.MULTIPLY, lower, b_upper), self._low(middle))
        highest = self._add(Opcode.MULTIPLY, upper, b_upper)
        carried = self._add(Opcode.ADD, self._high(middle), self._high(other))
        return self._add(Opcode.ADD, highest, carried)

    def _high(self, part: _Made) -> _Made:
        shift = self._full(32, ElementType.U64)
        return self._add(Opcode.SHIFT_RIGHT_LOGICAL, part, shift)

    def _low(self, part: _Made) -> _Made:
        return self._add(Opcode.AND, part, self._full(LOW_WORD, ElementType.U64))

    def _rows(self) -> list[_Made]:
        """The two rows of words."""
        return [
            self._editor.reshape(
                self._editor.sliced(
                    self._words, (row, *(0 for _ in self._sizes)), (row + 1, *self._sizes)
                ),
                self._sizes,
            )
            for row in (0, 1)
        ]

    def _full(self, value: float, kind: ElementType) -> _Made:
        return self._wide(self._editor.constant(value, kind))

    def _wide(self, scalar: _Made) -> _Made:
        return self._editor.broadcast(scalar, (), self._sizes)

    def _add(self, opcode: Opcode, *operands: _Made) -> _Made:
        return self._editor.add(opcode, operands)
