"""What policies propose."""

from __future__ import annotations

import numpy as np

from tocsin.balancing.proposal import Proposal, then


def test_one_proposal_after_another_keeps_each_reason() -> None:
    """Subscribers whom the second moves have its reason, also if the first had moved them; the others keep theirs."""
    first = Proposal(np.array([1, 1, 0], np.int32), ("shares most", "lightest"), np.array([0, 1, 0], np.int8))
    second = Proposal(np.array([1, 2, 2], np.int32), ("least loaded",))
    both = then(first, second)
    assert both.owners.tolist() == [1, 2, 2]
    assert [both.reason(subscriber) for subscriber in range(3)] == ["shares most", "least loaded", "least loaded"]
