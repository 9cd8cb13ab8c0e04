"""Rules and wire forms of operations that give elements other dimensions, or count them."""
