"""The broker's process: sockets, calls and storage around the machine."""
