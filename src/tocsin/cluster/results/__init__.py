"""Results: committed, positioned, retained and served."""
