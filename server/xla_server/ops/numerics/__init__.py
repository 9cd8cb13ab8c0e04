"""Parts that evaluators share: number types, functions of numbers, windows, indices."""
