"""The text form of each opcode's attributes; `table` maps opcodes to forms."""
