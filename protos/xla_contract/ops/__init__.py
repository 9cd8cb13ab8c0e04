"""A shape rule and an attribute record for each operation, by family; `definitions` lists them."""
