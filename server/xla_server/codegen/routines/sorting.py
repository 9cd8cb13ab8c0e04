"""Functions that sort in scratch memory, called from kernels.

An entry is one or two words of 64 bits: a signed key, and in its lower half or in a second word
the number of the element. Addresses and words are int64.
"""

from typing import Any

from xla_server.codegen.compiler.shared_functions import TextFunction
from xla_server.codegen.routines import heaps, radix_sort


def _sorter(words: int, size: int) -> TextFunction:
    # In one word the key is the upper half.
    first = 4 if words == 1 else 0

    def text(symbol: str) -> str:
        return radix_sort.RadixText(symbol, words, first, first + size).text()

    count = len(radix_sort.OPERANDS)
    return TextFunction(sorter_name(words, size), count, text, returns=True)


def sorter_name(words: int, size: int) -> str:
    """Return the name of the function that sorts entries of so many words, by so many key bytes.

    It takes the addresses of entries, of a buffer of the same size, and of counts, the number of
    entries, and the address of the cancellation flag. It returns the address of the sorted ones.
    """
    return f"sort_entries_{words}_{size}"


SORTING: dict[str, Any] = {
    **{
        sorter_name(words, size): _sorter(words, size)
        for words, size in ((1, 1), (1, 2), (1, 4), (2, 8))
    },
    "keep_entry": TextFunction("keep_entry", len(heaps.KEEP_OPERANDS), heaps.keep_text),
    "sort_heap": TextFunction("sort_heap", len(heaps.SORT_OPERANDS), heaps.sort_text),
}
"""Every function of this module by its name in kernels."""
