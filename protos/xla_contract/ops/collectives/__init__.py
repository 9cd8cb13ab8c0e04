"""Rules and wire forms of operations between replicas and partitions."""
