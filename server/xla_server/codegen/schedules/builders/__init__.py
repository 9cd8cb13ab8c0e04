"""Builders that schedules share: statements of nodes, row buffers, work items."""
