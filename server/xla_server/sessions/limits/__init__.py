"""Quotas of sessions, limits of the server, and the fair shares that callers have of them."""
