"""Decisions about runs: when, over what, and in which parts (pure)."""
