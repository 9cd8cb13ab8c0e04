"""Random programs: graphs of instructions, drawn step by step."""
