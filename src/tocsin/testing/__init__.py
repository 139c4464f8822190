"""Builders and fakes that users may use in their own tests."""
