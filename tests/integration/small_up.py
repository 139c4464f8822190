"""`tocsin`, but `tocsin up` starts the coordinator alone, within a second, and gives what is stuck one second to end.

Which processes there are is all that differs. The name of another one may be given as SMALL_UP.
"""

from __future__ import annotations

import os

from tocsin.cli import system, up
from tocsin.cli.main import app

if __name__ == "__main__":
    wanted = os.environ.get("SMALL_UP", "coordinator")
    vars(up)["parts_of"] = lambda wishes: [part for part in system.parts_of(wishes) if part.name == wanted]
    vars(system)["_STOP_TIMEOUT_S"] = 1.0
    app()
