"""Transposes that their readers absorb, or that move to where they cancel."""
