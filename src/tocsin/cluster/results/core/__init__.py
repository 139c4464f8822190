"""Rules for numbers of results (pure)."""
