"""The tocsin command: thin faces over the HTTP API."""
