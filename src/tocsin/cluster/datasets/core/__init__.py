"""Forms and rules of stored rows (pure)."""
