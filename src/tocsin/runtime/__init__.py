"""The edge to the operating system: logging, clocks, Java."""
