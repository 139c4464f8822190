"""What travels between processes: messages and their encoding. No sockets here."""
