"""Which simulations the claims are judged on. Several claims share a run, so each is named and run once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

#: The paper's simulation: 10 brokers and 10,000 subscribers. Its prototype: 5 brokers and 400.
PAPER, PROTOTYPE = "paper", "prototype"
#: Not the paper's: subscribers whose interests come in communities.
COMMUNITIES = "communities"
#: How much of an audience takes part, where not all do: a quarter of the communities shows what all would.
AUDIENCE: Mapping[str, float] = MappingProxyType({PAPER: 1.0, PROTOTYPE: 1.0, COMMUNITIES: 0.25})

#: What the paper's simulation has. It does not tell the prototype's, but shows random and round robin being balanced
#: there: with 0.15 they would be even enough to be left alone.
DEFAULT_ALPHA: Mapping[str, float] = MappingProxyType({PAPER: 0.15, PROTOTYPE: 0.05, COMMUNITIES: 0.15})
#: The communities live less crowded; a lower bar lets the shuffles be compared there all the same.
GAMMA: Mapping[str, float] = MappingProxyType({PAPER: 0.5, PROTOTYPE: 0.5, COMMUNITIES: 0.3})
ALPHAS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3)

#: The paper's 300 MB/s is for result sizes that it does not tell; as shares of the mean load they carry over.
BETA_SHARES = (0.25, 0.5, 0.75, 1.1)


@dataclass(frozen=True, slots=True)
class Variant:
    """One simulation: what is run and with what it differs from its preset. A policy's name is "" if off."""

    preset: str
    placement: str
    migration: str = ""
    shuffle: str = ""
    alpha: float | None = None
    #: Balancing begins at this share of the mean load of the same run without it. None: once everybody has subscribed.
    #: The same for migration and shuffle, so that a shuffle comes before migration makes it needless.
    beta_share: float | None = None
    #: The first subscribe while the others are still coming; the preset lets nobody subscribe before all are there.
    is_rush: bool = False

    @property
    def policies(self) -> str:
        """
        >>> Variant("paper", "nearest", "ldm", "gsh").policies, Variant("paper", "nearest").policies
        ('ldm+gsh', 'off')
        """
        return "+".join(name for name in (self.migration, self.shuffle) if name) or "off"

    @property
    def used_alpha(self) -> float:
        return DEFAULT_ALPHA[self.preset] if self.alpha is None else self.alpha

    @property
    def name(self) -> str:
        """What is not said is as usual.

        >>> Variant("paper", "nearest", "ldm", alpha=0.3).name
        'paper/nearest/ldm/alpha=0.3'
        """
        parts = [self.preset, self.placement, self.policies]
        if self.used_alpha != DEFAULT_ALPHA[self.preset]:
            parts.append(f"alpha={self.used_alpha:g}")
        if self.beta_share is not None:
            parts.append(f"beta={self.beta_share:g}")
        if self.is_rush:
            parts.append("rush")
        return "/".join(parts)


def alpha_name(alpha: float) -> str:
    return Variant(PAPER, "nearest", "ldm", alpha=alpha).name


def beta_name(share: float) -> str:
    return Variant(PAPER, "nearest", "ldm", beta_share=share).name


_PLACEMENTS = ("nearest", "random", "round-robin")
_ALL = [
    *(Variant(PROTOTYPE, placement, migration) for placement in _PLACEMENTS for migration in ("", "ldm", "sdm")),
    *(Variant(PROTOTYPE, "nearest", migration, "gsh") for migration in ("ldm", "sdm")),
    Variant(PROTOTYPE, "nearest", "group"),
    Variant(PROTOTYPE, "nearest", "group", "sharing"),
    Variant(PROTOTYPE, "random", "ldm", "gsh"),
    *(Variant(PROTOTYPE, "nearest", "", shuffle) for shuffle in ("gsh", "sharing")),
    *(Variant(COMMUNITIES, "nearest", migration) for migration in ("ldm", "group")),
    *(Variant(COMMUNITIES, "nearest", "", shuffle) for shuffle in ("gsh", "sharing")),
    Variant(PAPER, "nearest"),
    *(Variant(PAPER, "nearest", "", shuffle) for shuffle in ("gsh", "sharing")),
    Variant(PAPER, "nearest", "ldm", "gsh"),
    Variant(PAPER, "nearest", "group"),
    Variant(PAPER, "nearest", "group", "sharing"),
    *(Variant(PAPER, "nearest", "ldm", alpha=alpha) for alpha in ALPHAS),
    *(Variant(PAPER, "nearest", "ldm", beta_share=share) for share in BETA_SHARES),
    *(Variant(PAPER, one, is_rush=True) for one in ("random", "least-loaded", "least-resulting-load")),
]
VARIANTS: Mapping[str, Variant] = MappingProxyType({variant.name: variant for variant in _ALL})
