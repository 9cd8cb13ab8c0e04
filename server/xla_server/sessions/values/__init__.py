"""Handles and the values behind them, those that executions will give among them."""
