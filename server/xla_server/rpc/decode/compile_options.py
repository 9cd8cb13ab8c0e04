"""ExecutionOptions of clients -> compile options of a platform."""

from xla_contract.stubs import xla_pb2
from xla_server.backends.compile_options import CompileOptions, DumpFormat, DumpOptions, Pattern
from xla_server.passes.framework.selection import HIGHEST_LEVEL, PassOptions

_EFFORTS = {
    xla_pb2.ExecutionOptions.EFFORT_UNKNOWN: HIGHEST_LEVEL,
    xla_pb2.ExecutionOptions.EFFORT_O0: 0,
    xla_pb2.ExecutionOptions.EFFORT_O1: 1,
    xla_pb2.ExecutionOptions.EFFORT_O2: 2,
    xla_pb2.ExecutionOptions.EFFORT_O3: 3,
}


def compile_options(options: xla_pb2.ExecutionOptions) -> CompileOptions:
    """The options that affect compiling; raises InvalidArgumentError.

    Options that this server does not have are ignored.
    """
    debug = options.debug_options
    return CompileOptions(
        PassOptions(
            frozenset(debug.xla_disable_hlo_passes),
            frozenset(debug.xla_enable_hlo_passes_only),
            _level(options),
        ),
        _dump(debug),
        debug.xla_hlo_profile,
        options.seed,
    )


def _level(options: xla_pb2.ExecutionOptions) -> int:
    debug = options.debug_options
    if debug.xla_disable_all_hlo_passes:
        return 0
    if debug.HasField("xla_backend_optimization_level"):
        return debug.xla_backend_optimization_level
    # An unknown number is of a later version of the contract.
    return _EFFORTS.get(options.optimization_level, HIGHEST_LEVEL)


def _dump(debug: xla_pb2.DebugOptions) -> DumpOptions:
    if debug.HasField("xla_enable_dumping") and not debug.xla_enable_dumping:
        return DumpOptions()
    flags = {
        DumpFormat.TEXT: debug.xla_dump_hlo_as_text,
        DumpFormat.PROTO: debug.xla_dump_hlo_as_proto,
        DumpFormat.DOT: debug.xla_dump_hlo_as_dot,
        DumpFormat.HTML: debug.xla_dump_hlo_as_html,
    }
    formats = frozenset(name for name, is_set in flags.items() if is_set)
    return DumpOptions(
        debug.xla_dump_to,
        formats or frozenset({DumpFormat.TEXT}),
        _pattern(debug.xla_dump_hlo_pass_re),
        _pattern(debug.xla_dump_hlo_module_re),
        debug.xla_dump_max_hlo_modules if debug.HasField("xla_dump_max_hlo_modules") else -1,
    )


def _pattern(expression: str) -> Pattern | None:
    return Pattern(expression) if expression else None
