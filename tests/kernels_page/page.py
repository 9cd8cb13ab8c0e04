"""The page, whose text is written by hand and whose blocks are printed."""

from pathlib import Path

PATH = Path(__file__).parents[2] / "docs" / "KERNELS.md"
