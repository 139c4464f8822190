"""The tocsin command: thin commands over the HTTP API."""
