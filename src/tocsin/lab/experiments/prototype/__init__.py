"""The multistage paper's test-bed evaluation, on real processes."""
