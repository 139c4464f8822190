"""Schemas, the catalogue and the Delta tables that datasets live in."""
