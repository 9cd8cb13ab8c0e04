"""Options of one compilation."""

import dataclasses
import enum

from pydantic_core import SchemaError, SchemaValidator, ValidationError, core_schema

from xla_contract.errors import InvalidArgumentError
from xla_server.backends.diagnostics.dump_files import DumpFiles
from xla_server.passes.framework.selection import PassOptions


class Pattern:
    """A regular expression in RE2's syntax that may match anywhere in a text.

    Matching takes time linear in the text: Python's engine takes exponential time for some
    expressions, and clients choose them. Raises InvalidArgumentError for an invalid expression.
    """

    def __init__(self, expression: str) -> None:
        schema = core_schema.str_schema(pattern=expression, regex_engine="rust-regex")
        try:
            self._validator = SchemaValidator(schema)
        except SchemaError as error:
            raise InvalidArgumentError(
                f"a regular expression must be one that RE2 accepts, got {expression!r:.200}"
            ) from error

    def finds(self, text: str) -> bool:
        """Return whether the pattern matches some part of the text."""
        try:
            self._validator.validate_python(text)
        except ValidationError:
            return False
        return True


class DumpFormat(enum.StrEnum):
    """Format of a dumped module; the value is the suffix of its file."""

    TEXT = "txt"
    PROTO = "pb"
    DOT = "dot"
    HTML = "html"


@dataclasses.dataclass(frozen=True, slots=True)
class DumpOptions:
    """The files to dump from a compilation, and the subdirectory of the operator's dump directory.

    Without a name or `files` there is no dump. The files contain the modules before the first and
    after the last pass, and before and after passes whose names match `passes`. Only modules whose
    names match `modules` are dumped, and at most `max_modules` in one directory; a negative number
    is no limit.
    """

    name: str = ""
    formats: frozenset[DumpFormat] = frozenset({DumpFormat.TEXT})
    passes: Pattern | None = None
    modules: Pattern | None = None
    max_modules: int = -1
    files: DumpFiles | None = None
    """The files that are written instead of new ones in the directory."""


@dataclasses.dataclass(frozen=True, slots=True)
class CompileOptions:
    """The options of one compilation. `is_profiled`: measure each thunk of each execution.

    `seed` starts the random numbers of every execution; with 0 each execution has another seed.
    """

    passes: PassOptions = dataclasses.field(default_factory=PassOptions)
    dump: DumpOptions = dataclasses.field(default_factory=DumpOptions)
    is_profiled: bool = False
    seed: int = 0


DEFAULTS = CompileOptions()
