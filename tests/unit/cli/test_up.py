"""What `tocsin up` makes for its processes."""

from __future__ import annotations

from pathlib import Path

from tocsin.cli.up import token_for_brokers
from tocsin.settings import BrokerSettings, ClusterSettings, CoordinatorSettings


def test_brokers_get_a_token_if_they_need_one(tmp_path: Path) -> None:
    """Whoever sets an api_token has a system that works; a broker_token that was chosen is left alone."""
    config = tmp_path / "tocsin.toml"
    config.write_text('[coordinator]\napi_token = "secret"\n')
    made = token_for_brokers(config, {})
    (token,) = set(made.values())
    assert len(token) > 30
    assert token not in token_for_brokers(config, {}).values()
    for settings in (ClusterSettings, CoordinatorSettings, BrokerSettings):
        assert settings.load(config, made).broker_token == token
    assert token_for_brokers(config, {"TOCSIN_CLUSTER_BROKER_TOKEN": "chosen"}) == {}
    assert token_for_brokers(None, {}) == {}
    config.write_text('[coordinator]\napi_token = "secret"\n[cluster]\nbroker_token = "chosen"\n')
    assert token_for_brokers(config, {}) == {}
