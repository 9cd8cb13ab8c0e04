"""Prints the blocks of docs/KERNELS.md anew: what changed is then in the diff."""

from tests.command_line import command_line
from tests.kernels_page.blocks import refreshed
from tests.kernels_page.page import PATH

if __name__ == "__main__":
    command_line("tests.kernels_page", __doc__).parse_args()
    PATH.write_text(refreshed(PATH.read_text(encoding="utf-8")), encoding="utf-8")
    print(PATH)
