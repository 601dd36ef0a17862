from __future__ import annotations

import pytest
from shoal.gossip import Settings, SettingsRefused


def test_profiles_differ_where_the_contract_says():
    lan, wan, local = Settings.lan(), Settings.wan(), Settings.local()
    assert (lan.probe_interval, lan.probe_timeout, lan.relays) == (1.0, 0.5, 3)
    assert (wan.probe_interval, wan.probe_timeout, wan.fanout) == (5.0, 3.0, 4)
    assert (local.probe_timeout, local.relays, local.gossip_tick) == (0.2, 1, 0.1)
    assert (lan.most_accusers, wan.most_accusers, local.most_accusers) == (3, 5, 2)


def test_single_values_can_be_set_on_a_profile():
    assert Settings.wan(cluster="blue", probe_interval=9.0).probe_interval == 9.0


@pytest.mark.parametrize(
    "wrong",
    [
        {"probe_interval": 0.0},
        {"probe_interval": 61.0},
        {"probe_timeout": 1.0},
        {"fanout": 0},
        {"relays": 17},
        {"cluster": ""},
        {"cluster": "x" * 256},
    ],
)
def test_a_value_out_of_range_is_named(wrong):
    with pytest.raises(SettingsRefused, match=next(iter(wrong))):
        Settings.lan(**wrong)
