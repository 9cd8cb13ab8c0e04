"""Functions that sort in scratch memory, called from kernels.

An entry is one or two words of 64 bits: a signed key, and in its lower half or in a second word
the number of the element. Addresses and words are int64.
"""

import functools

from xla_server.codegen.compiler.shared_functions import TextFunction, by_name
from xla_server.codegen.routines.indexing import heaps
from xla_server.codegen.routines.indexing.radix_sort import RadixText, sorter


def _sorter(words: int, size: int) -> TextFunction:
    # In one word the key is the upper half.
    first = 4 if words == 1 else 0
    begin = functools.partial(RadixText, words=words, first=first, last=first + size)
    return TextFunction(sorter(words, size), RadixText.sort, begin=begin)


SORTING = by_name(
    (
        *(_sorter(words, size) for words, size in ((1, 1), (1, 2), (1, 4), (2, 8))),
        TextFunction(heaps.KEEP, heaps.keep),
        TextFunction(heaps.SORT, heaps.sort),
    )
)
"""Every function of this module by its name in kernels."""
