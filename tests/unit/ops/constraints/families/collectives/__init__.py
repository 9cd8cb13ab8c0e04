"""Broken exchanges of values between replicas and partitions."""
