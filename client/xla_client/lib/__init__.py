"""Programs' common parts, written with `xla_client.ops` and nothing else.

Import the module, not its names, some of which shadow builtins:
`from xla_client.lib import arithmetic, matrix`. Nothing here broadcasts operands of different
rank or size, with the exception of `numpy_broadcasting`, which says so in its name.
"""
