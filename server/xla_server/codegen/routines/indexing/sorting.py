"""Functions that sort in scratch memory, called from kernels.

An entry is one or two words of 64 bits: a signed key, and in its lower half or in a second word
the number of the element. Addresses and words are int64.
"""

from typing import Any

from xla_server.codegen.compiler.shared_functions import TextFunction
from xla_server.codegen.routines.indexing import heaps
from xla_server.codegen.routines.indexing.radix_sort import RadixText, sorter


def _sorter(words: int, size: int) -> TextFunction:
    # In one word the key is the upper half.
    first = 4 if words == 1 else 0

    def text(symbol: str) -> str:
        return RadixText(symbol, words, first, first + size).text()

    return TextFunction(sorter(words, size), text)


SORTING: dict[str, Any] = {
    **{
        sorter(words, size).name: _sorter(words, size)
        for words, size in ((1, 1), (1, 2), (1, 4), (2, 8))
    },
    heaps.KEEP.name: TextFunction(heaps.KEEP, heaps.keep_text),
    heaps.SORT.name: TextFunction(heaps.SORT, heaps.sort_text),
}
"""Every function of this module by its name in kernels."""
