"""Messages between processes, and their encoding. No sockets here."""
