"""Users of the coordinator: passwords, tokens and the keys that sign them."""
