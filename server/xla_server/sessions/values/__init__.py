"""Handles and their values, among them futures of values that executions will compute."""
