"""Frozen values every part shares. This package imports nothing but the standard library."""
