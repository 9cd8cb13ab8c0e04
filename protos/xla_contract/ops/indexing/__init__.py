"""Rules and wire forms of operations that read, write or order by indices and keys."""
