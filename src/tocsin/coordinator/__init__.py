"""The coordinator: registers users and brokers, places subscribers, and knows who keeps whose session.

`state.py` decides and is pure; `node.py` acts. In order: `events.py` come in, `instructions.py` go out, `loads.py`
makes a view of the network, `balancing` chooses.
"""
