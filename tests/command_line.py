"""The form of all command lines of tests: `--help` prints the docstring of the module."""

import argparse


def command_line(module: str, description: str | None) -> argparse.ArgumentParser:
    """Return the parser of `python -m MODULE`."""
    return argparse.ArgumentParser(
        prog=f"python -m {module}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
