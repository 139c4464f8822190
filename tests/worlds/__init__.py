"""Small worlds that tests put machines into: brokers without sockets, moves in memory, runs made by hand."""
