"""Tiles, panels and blocks of products and of convolutions."""
