"""Formats of publishers' requests and of the landing log (pure)."""
