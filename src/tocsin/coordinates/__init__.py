"""Network coordinates: a point for each process, so that distances between points estimate round trips. Pure."""
