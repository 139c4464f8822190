"""Loads of brokers, and the stages and plans that keep them even (pure)."""
