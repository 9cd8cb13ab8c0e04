"""The kernels of the corpora, listed for one revision, and compared between two.

`python -m tests.kernels list FILE [CORPUS...]` writes text and LLVM module of each kernel, and with
OBJECTS=1 the hash of its object code. `python -m tests.kernels diff FILE FILE` compares two lists
and exits with 1 if any kernel differs.
"""

import os
import sys
from pathlib import Path

from tests.kernels.corpora import CORPORA
from tests.kernels.listing import Listing, differences, listed


def main(*words: str) -> int:
    """Do a command."""
    match words:
        case ["list", path, *corpora]:
            found = listed(corpora or list(CORPORA), objects=bool(os.environ.get("OBJECTS")))
            found.write(Path(path))
            texts = len({row["text"] for row in found.rows.values()})
            print(f"{len(found.rows)} kernels, {texts} texts")
            return 0
        case ["diff", *paths] if len(paths) == 2:
            before, after = (Listing.read(Path(path)) for path in paths)
            lines = list(differences(before, after, int(os.environ.get("SHOWN", "3"))))
            print("\n".join(lines))
            return int(any(not line.endswith(": equal") for line in lines))
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
