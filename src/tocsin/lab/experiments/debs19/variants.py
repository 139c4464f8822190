"""Which simulations the claims are judged on. Several claims share a run, so each is named and run once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

#: The paper's simulation: 10 brokers and 10,000 subscribers. Its prototype: 5 brokers and 400.
PAPER, PROTOTYPE = "paper", "prototype"
#: Not the paper's: subscribers whose interests come in communities.
COMMUNITIES = "communities"

#: Settings of a scenario by their keys with dots, as `tocsin simulate --set` takes them.
Changes = tuple[tuple[str, str], ...]


def changes(**settings: object) -> Changes:
    """
    >>> changes(balancing__alpha=0.05)
    (('balancing.alpha', '0.05'),)
    """
    return tuple((key.replace("__", "."), str(value)) for key, value in settings.items())


#: A tenth of the paper's subscribers, subscriptions and moves at a time, and results ten times as large: as many
#: subscribers for each subscription, and the same loads, so that the same thresholds apply.
TENTH: Changes = changes(
    subscribers__count=1000,
    channels__subscriptions=10,
    channels__rate__mean_bytes_per_s=100_000,
    channels__rate__std_bytes_per_s=30_000,
    balancing__moves_in_flight=10,
    balancing__moves_per_s=5,
)
#: The first subscribe while the others are still coming; the preset lets nobody subscribe before all are there.
_RUSH: Changes = changes(subscribers__login_s="[0, 10]", subscribers__subscribe_s="[0, 480]")


@dataclass(frozen=True, slots=True)
class Variant:
    """One simulation: a preset, and how this run differs from it. A policy's name is "" if off."""

    preset: str
    placement: str
    migration: str = ""
    shuffle: str = ""
    #: What it is called beside its preset and policies.
    differs: str = ""
    settings: Changes = ()
    #: Beta as a share of the mean load of the same run without balancing.
    beta_share: float | None = None

    @property
    def policies(self) -> str:
        """
        >>> Variant("paper", "nearest", "ldm", "gsh").policies, Variant("paper", "nearest").policies
        ('ldm+gsh', 'off')
        """
        return "+".join(name for name in (self.migration, self.shuffle) if name) or "off"

    @property
    def name(self) -> str:
        """What is not said is as in the preset.

        >>> Variant("paper", "nearest", "ldm", differs="alpha=0.05").name
        'paper/nearest/ldm/alpha=0.05'
        """
        beta = f"beta at {self.beta_share:g} of the mean" if self.beta_share is not None else ""
        return "/".join(filter(None, (self.preset, self.placement, self.policies, self.differs, beta)))

    def with_(self, differs: str, settings: Changes) -> Variant:
        """The same with other settings; later ones count."""
        return replace(
            self, differs="/".join(filter(None, (self.differs, differs))), settings=(*self.settings, *settings)
        )

    def without_balancing(self) -> Variant:
        return replace(self, migration="", shuffle="", beta_share=None)


#: The paper's, then smaller ones: it names 0.15, and 0.05 as very small.
ALPHAS = (0.05, 0.1, 0.15)
#: In MB/s, around the 300 that the paper names; our mean load is about 350.
BETAS_MB = (150, 200, 250, 300, 350)
#: Around the mean load, in small steps, for the experiment on what beta acts on.
BETA_SHARES = (0.75, 0.8, 0.85, 0.9, 0.95, 1.0, 1.05, 1.1)


def alpha_name(alpha: float) -> str:
    return _alpha(alpha).name


def beta_name(beta_mb: int) -> str:
    return _beta(beta_mb).name


def beta_share_name(share: float) -> str:
    return beta_share_variant(share).name


def _alpha(alpha: float) -> Variant:
    if alpha == 0.15:
        return Variant(PAPER, "nearest", "ldm")
    return Variant(PAPER, "nearest", "ldm", "", f"alpha={alpha:g}", changes(balancing__alpha=alpha))


def _beta(beta_mb: int) -> Variant:
    if beta_mb == 300:
        return Variant(PAPER, "nearest", "ldm", "", "a tenth", TENTH)
    settings = (*TENTH, *changes(balancing__beta=f"{beta_mb}e6"))
    return Variant(PAPER, "nearest", "ldm", "", f"a tenth, beta={beta_mb}", settings)


def beta_share_variant(share: float) -> Variant:
    return Variant(PAPER, "nearest", "ldm", beta_share=share)


_PLACEMENTS = ("nearest", "random", "round-robin")
_OURS = (("ldm", ""), ("group", ""), ("", "gsh"), ("", "sharing"), ("ldm", "gsh"), ("group", "sharing"))
_ALL = [
    Variant(PAPER, "nearest"),
    Variant(PAPER, "nearest", "", "gsh"),
    *(_alpha(alpha) for alpha in ALPHAS),
    *(_beta(beta_mb) for beta_mb in BETAS_MB),
    *(
        Variant(PAPER, one, "", "", "a tenth, rush", (*TENTH, *_RUSH))
        for one in ("random", "least-loaded", "least-resulting-load")
    ),
    *(Variant(PROTOTYPE, placement, migration) for placement in _PLACEMENTS for migration in ("", "ldm", "sdm")),
    *(Variant(PROTOTYPE, "nearest", migration, "gsh") for migration in ("ldm", "sdm")),
    Variant(PROTOTYPE, "random", "ldm", "gsh"),
    # Ours, beside the paper's.
    *(Variant(PAPER, "nearest", migration, shuffle, "a tenth", TENTH) for migration, shuffle in _OURS),
    *(Variant(PROTOTYPE, "nearest", migration, shuffle) for migration, shuffle in _OURS),
    # The communities live less crowded; a lower bar lets the shuffles be compared there all the same.
    *(
        Variant(
            COMMUNITIES,
            "nearest",
            migration,
            shuffle,
            "a tenth",
            changes(subscribers__count=2000, balancing__gamma=0.3),
        )
        for migration, shuffle in _OURS[:4]
    ),
]
VARIANTS: Mapping[str, Variant] = MappingProxyType({variant.name: variant for variant in _ALL})


def referred(variants: Iterable[Variant]) -> list[Variant]:
    """The runs without balancing that these take their beta from."""
    return list({one.without_balancing().name: one.without_balancing() for one in variants if one.beta_share}.values())
