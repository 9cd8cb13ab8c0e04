"""Prints the blocks of docs/KERNELS.md anew: what changed is then in the diff."""

from tests.kernels_page.blocks import refreshed
from tests.kernels_page.page import PATH

PATH.write_text(refreshed(PATH.read_text(encoding="utf-8")), encoding="utf-8")
print(PATH)
