"""Writes the kernels of all programs anew: what changed is then in the diff."""

from tests.command_line import command_line
from tests.golden.kernels import PROGRAMS, WIDTHS, generated, kept

if __name__ == "__main__":
    command_line("tests.golden", __doc__).parse_args()
    for name in PROGRAMS:
        common, *others = (generated(name, width) for width in WIDTHS)
        kept(name, WIDTHS[0]).write_text(common)
        for width, text in zip(WIDTHS[1:], others, strict=True):
            own = PROGRAMS[name].with_name(f"{name}.{width}.kernels")
            own.unlink(missing_ok=True)
            if text != common:
                own.write_text(text)
        print(kept(name, WIDTHS[0]))
