"""Parts that schedules build loops of: statements of nodes, row buffers, work items."""
