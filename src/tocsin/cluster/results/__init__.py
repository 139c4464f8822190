"""Results: committed, positioned, retained, announced to brokers and served."""
