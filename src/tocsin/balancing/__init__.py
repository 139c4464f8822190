"""Policies that keep load even, one per file (pure): placement of newcomers, migration, shuffle."""
