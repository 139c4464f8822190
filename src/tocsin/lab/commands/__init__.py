"""Commands for benchmarks, demonstrations and experiments. `tocsin.cli` finds them by name."""
