"""The coordinator: registers users and brokers, places subscribers, and knows which broker keeps each session.

`registry/machine.py` decides and is pure; `node.py` acts. The machine takes events (`registry/events.py`) and returns
instructions (`registry/instructions.py`). `load/broker_loads.py` makes views of the network, by which the policies of
`tocsin.balancing` choose.
"""
