"""Settings of the stages."""

from __future__ import annotations

from tocsin.coordinator.load.stages import BalancingSettings, StageSettings


def test_operators_see_one_list_and_change_any_of_it() -> None:
    """What is not changed stays; each value goes where it belongs."""
    before = BalancingSettings(every_s=2.0, stages=StageSettings(alpha=0.3))
    after = before.changed({"automatic": True, "gamma": 0.9})
    assert after.listed() == before.listed() | {"automatic": True, "gamma": 0.9}
    assert (after.automatic, after.stages.gamma, after.stages.alpha) == (True, 0.9, 0.3)


def test_settings_survive_being_stored() -> None:
    """Those that were never stored are the defaults."""
    settings = BalancingSettings(automatic=True, stages=StageSettings(shuffle="", max_moves=7))
    assert BalancingSettings.of_text(settings.to_text()) == settings
    assert BalancingSettings.of_text("") == BalancingSettings()
