"""Frozen values that every part shares. This package imports only the standard library."""
