"""Writes the kernels of all programs anew: what changed is then in the diff."""

from tests.golden.kernels import PROGRAMS, WIDTHS, generated, kept

for name in PROGRAMS:
    common, *others = (generated(name, width) for width in WIDTHS)
    kept(name, WIDTHS[0]).write_text(common)
    for width, text in zip(WIDTHS[1:], others, strict=True):
        own = PROGRAMS[name].with_name(f"{name}.{width}.kernels")
        own.unlink(missing_ok=True)
        if text != common:
            own.write_text(text)
    print(kept(name, WIDTHS[0]))
