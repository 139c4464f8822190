"""What the coordinator remembers over restarts, in a relational database."""
