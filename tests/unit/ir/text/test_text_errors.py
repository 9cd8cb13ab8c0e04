"""Errors of HLO text, with the position."""

import contextlib
import random

import pytest

from tests.corpus.hlo_text import VECTOR_LOOP
from xla_contract.errors import InvalidArgumentError, XlaError
from xla_server.ir.text.parser import parse_module
from xla_server.ir.text.printer import print_module

LINES = "HloModule m\nENTRY main {\n  x = f32[4] parameter(0)\n  "

CASES = {
    "ROOT r = f32[4] negate(y) }": "negate %r: operands must come before their users, got 'y' at "
    "4:26",
    "ROOT r = f32[4] bogus(x) }": "bogus %r: an opcode must be one of HLO's, got 'bogus' at 4:19",
    "ROOT r = f32[4] negate(f32[5] x) }": "negate %r: an operand must have the shape of its "
    "instruction, f32[4], got f32[5] at 4:26",
    "ROOT r = f32[4] negate(x), colour=red }": "negate %r: the opcode must have the attribute, got "
    "'colour' at 4:30",
    "ROOT r = f32[4] negate(x), metadata={}, metadata={} }": "negate %r: an attribute may be said "
    "once, got 'metadata' at 4:43",
    "ROOT r = f32[4] transpose(x) }": "transpose %r: dimensions must be said, got none at 4:19",
    "ROOT r = f32[4] call(x), to_apply=f }": "call %r: called computations must come before their "
    "callers, got 'f' at 4:37",
    "ROOT r = pred[4] compare(x, x), direction=UP }": "compare %r: the value must be one of EQ, "
    "NE, GE, GT, LE, LT, got 'UP' at 4:45",
    "ROOT r = f32[2] constant({1, x}) }": "constant %r: a value of f32 is needed in HLO text, got "
    "'x}) }' at 4:32",
    "ROOT r = s8[2] constant({1, 200}) }": "constant %r: the elements must be values of s8, got "
    "'200' at 4:27",
    "ROOT r = f32[9] constant({...}) }": "constant %r: every element of a constant (they are left "
    "out here) is needed in HLO text, got '...}) }' at 4:29",
    "x = f32[4] negate(x) }": "instruction names must be unique, got 'x' at 4:3",
    "ROOT r = f32[4] negate(x)": "an instruction or } is needed in HLO text, got the end at 4:28",
    "ROOT r = f32[4] all-gather(x), dimensions={0}, replica_groups=[2,2]<=[3] }": "all-gather %r: "
    "an iota must be reshaped to its 4 ids, got {3} at 4:65",
    "ROOT r = b(f32[4]) custom-call(x) }": "an array, a tuple or a token (values are no buffers) "
    "is needed in HLO text, got 'b(f32[4]) custom-cal' at 4:12",
    "ROOT r = f32[4]{1} negate(x) }": "got {1} for rank 1 at 4:19",
    "ROOT r = (u32[4]) rng-bit-generator(x), algorithm=rng_default }": "rng-bit-generator %r: "
    "the result must be a state and bits, got (u32[4]) at 4:21",
}


@pytest.mark.parametrize("rest", CASES)
def test_a_mistake_has_its_position(rest: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        parse_module(LINES + rest)
    assert CASES[rest] in caught.value.message


WHOLE = {
    "": "'HloModule' is needed in HLO text, got the end at 1:1",
    "HloModule m": "a computation is needed in HLO text, got the end at 1:12",
    "HloModule m, colour=1": "a module's attributes must be known, got 'colour' at 1:14",
    "HloModule m, replica_count=0": "a program must run on 1 to 4096 devices, "
    "got 0 replicas at 1:28",
    "HloModule m, replica_count=64, num_partitions=65": "a program must run on 1 to 4096 "
    "devices, got 65 partitions at 1:47",
    "HloModule m\nf { }": "a computation must have an instruction, got none at 2:1",
    "HloModule m\nf (a: f32[2]) -> f32[2] { a = f32[3] parameter(0) }": "a computation must have "
    "the result stated before it, f32[2], got f32[3] at 2:1",
    "HloModule m\nf (a: f32[2] -> f32[2] { a = f32[2] parameter(0) }": "',' is needed in HLO text, "
    "got '-> f32[2] { a = f32[' at 2:14",
    "HloModule m\nf (f32[2]) -> f32[2] { a = f32[2] parameter(0) }": "an element type or ( is "
    "needed in HLO text, got '[2]) -> f32[2] { a =' at 2:7",
    "HloModule m\nf { "
    + "a = f32[] map(), to_apply={ " * 65
    + "a =": "at most 64 computations inside of computations are needed",
    "HloModule m\nf { a = f32[] parameter(1) }": "parameter numbers must count from 0, each once, "
    "got [1] at 2:1",
    "HloModule m\nf { a = f32[] parameter(0) }\nf { b = f32[] parameter(0) }": "computation names "
    "must be unique, got 'f' at 3:1",
    "HloModule m\nENTRY f { a = f32[] parameter(0) }\nENTRY g { b = f32[] parameter(0) }": "one "
    "computation may be the entry, got another one at 3:1",
    "HloModule m\nf { a = " + "(" * 100 + "f32[]": "at most 64 nested tuples are needed",
}


@pytest.mark.parametrize("text", WHOLE)
def test_a_mistake_between_instructions_has_its_position(text: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        parse_module(text)
    assert WHOLE[text] in caught.value.message


def test_what_fits_no_rule_of_shapes_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"declared f32\[4\]|inferred"):
        parse_module(LINES + "ROOT r = f32[5] negate(x) }")


def test_broken_text_raises_nothing_else() -> None:
    text = print_module(parse_module(VECTOR_LOOP))
    draw = random.Random(0)
    pieces = ["{", "}", "(", ")", ",", "=", "%", '"', "9" * 30, "-", "/*", "f32[", "\x00", "\udc00"]
    for _ in range(1500):
        at = draw.randrange(len(text))
        mutated = text[:at] + draw.choice(pieces) + text[at + draw.randrange(4) :]
        with contextlib.suppress(XlaError):
            parse_module(mutated)
