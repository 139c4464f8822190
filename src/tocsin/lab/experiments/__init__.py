"""Applications and evaluations: generated workloads, driven over the same HTTP API that everybody uses."""
