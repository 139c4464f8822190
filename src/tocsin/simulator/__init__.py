"""The network in one process and without a clock: the same machines, a scenario and a seed."""
