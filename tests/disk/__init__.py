"""What the disk may do: power cuts at any moment, flipped bits anywhere. `python -m disk --help`."""
