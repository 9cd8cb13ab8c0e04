"""Infeed and outfeed of a device, over streams that resume after an interruption."""
