"""Dots in the forms that lowering has fast kernels for."""
