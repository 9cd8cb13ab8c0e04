"""The kernels of the corpora, listed for one revision, and compared between two.

`python -m tests.kernels list FILE [CORPUS...]` writes text and LLVM module of each kernel, and with
OBJECTS=1 the hash of its object code. `python -m tests.kernels diff FILE FILE` compares two lists
and exits with 1 if any kernel differs.
"""

import os
import sys
from pathlib import Path

from tests.command_line import command_line
from tests.kernels.corpora import CORPORA
from tests.kernels.listing import Listing, differences, listed


def main() -> int:
    """Do a command."""
    parser = command_line("tests.kernels", __doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    listing = commands.add_parser("list", help="write the kernels of the corpora")
    listing.add_argument("file", type=Path)
    listing.add_argument("corpora", metavar="corpus", nargs="*", help=f"of {', '.join(CORPORA)}")
    comparing = commands.add_parser("diff", help="compare two lists")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    given = parser.parse_args()
    if given.command == "list":
        found = listed(given.corpora or list(CORPORA), objects=bool(os.environ.get("OBJECTS")))
        found.write(given.file)
        texts = len({row["text"] for row in found.rows.values()})
        print(f"{len(found.rows)} kernels, {texts} texts")
        return 0
    before, after = (Listing.read(path) for path in (given.before, given.after))
    lines = list(differences(before, after, int(os.environ.get("SHOWN", "3"))))
    print("\n".join(lines))
    return int(any(not line.endswith(": equal") for line in lines))


if __name__ == "__main__":
    sys.exit(main())
