"""Editing of computations, the form of rewrite passes, repetition and selection of passes."""
