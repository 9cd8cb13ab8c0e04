"""Analyses of instructions: index maps, side effects, groups of participants."""
