"""Integers, conversions between types, and the bits of narrow floats."""
