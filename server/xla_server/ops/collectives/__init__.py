"""Evaluators of operations between replicas and partitions."""
