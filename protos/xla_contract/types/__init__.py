"""Types of values and programs: shapes, layouts, literals, opcodes, dimension numbers, groups.

No module here reads or writes messages; `xla_contract.wire` does.
"""
