"""Tocsin: Big Active Data on Spark. People subscribe to queries, not topics."""

__version__ = "0.1.0"
