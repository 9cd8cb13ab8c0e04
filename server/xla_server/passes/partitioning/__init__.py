"""Programs over several partitions, as the program that each partition runs."""
