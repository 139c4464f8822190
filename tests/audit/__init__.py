"""What the project is made of, and whether something of it is known to be unsafe: `make audit`."""
