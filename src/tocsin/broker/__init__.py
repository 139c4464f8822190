"""Brokers hold subscribers' connections, share backend subscriptions among them, and deliver."""
