"""The coordinator: registers users and brokers, places subscribers, and knows which broker keeps whose session.

`registry/machine.py` decides and is pure; `node.py` acts. `registry/events.py` come in, `registry/instructions.py` go
out, `load/broker_loads.py` makes a view of the network, and `tocsin.balancing` chooses.
"""
