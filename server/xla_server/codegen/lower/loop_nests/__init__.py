"""Lowering of what loop nests compute, alone or behind a product."""
