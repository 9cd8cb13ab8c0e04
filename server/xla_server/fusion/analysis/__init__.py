"""Analyses of instructions for fusion: classes, index maps, levels."""
