"""Modules drawn as Graphviz text and as pages of HTML."""
