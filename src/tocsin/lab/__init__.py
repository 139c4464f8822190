"""Measurements and evaluations: benchmarks and experiments. The product never imports this package."""
