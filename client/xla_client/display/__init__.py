"""Representation of objects in notebooks: tables and graphs as HTML."""
