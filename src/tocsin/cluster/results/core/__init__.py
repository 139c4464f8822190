"""Rules for the numbers of results (pure)."""
