"""Drawn histories: the machines of cluster, brokers, coordinator and subscribers in one world."""
