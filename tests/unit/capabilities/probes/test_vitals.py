import pytest
from shoal.capabilities.probes.vitals import pressure_level

THERMAL, HWMON, POWER, PRESSURE = "/sys/class/thermal", "/sys/class/hwmon", "/sys/class/power_supply", "/proc/pressure"


@pytest.mark.parametrize(
    ("given", "degrees"),
    [
        ({f"{THERMAL}/thermal_zone0/temp": "-32768000\n", f"{THERMAL}/thermal_zone1/temp": "51999\n"}, 51),
        ({f"{THERMAL}/thermal_zone0/temp": "0\n"}, None),
        ({f"{THERMAL}/thermal_zone0/temp": "-274000\n"}, None),
        ({f"{THERMAL}/thermal_zone0/temp": "999999\n"}, None),
        ({f"{THERMAL}/thermal_zone0/temp": "hot\n", f"{THERMAL}/thermal_zone10/temp": "30000"}, 30),
        ({f"{THERMAL}/cooling_device0/cur_state": "70000\n"}, None),
        ({f"{HWMON}/hwmon0/name": "k10temp\n", f"{HWMON}/hwmon0/temp1_input": "61250\n"}, 61),
        ({f"{HWMON}/hwmon0/name": "nvme\n", f"{HWMON}/hwmon0/temp1_input": "61250\n"}, None),
        ({THERMAL: {"errno": "EACCES"}}, None),
    ],
)
def test_temperature(detected, given, degrees):
    assert detected(given).get("thermal_max_celsius") == degrees


def supply(name, **files):
    return {f"{POWER}/{name}/{file}": text + "\n" for file, text in files.items()}


BATTERY = {"type": "Battery", "status": "Discharging", "capacity": "80"}


@pytest.mark.parametrize(
    ("given", "battery", "percent", "source"),
    [
        ({POWER: {"dir": []}}, False, None, "ac"),
        (supply("AC", type="Mains", online="1"), False, None, "ac"),
        (supply("BAT0", **BATTERY) | supply("AC", type="Mains", online="0"), True, 80, "battery"),
        (supply("BAT0", **BATTERY) | supply("AC", type="Mains", online="1"), True, 80, "ac"),
        (supply("macsmc-battery", **BATTERY) | supply("ucsi", type="USB", online="1"), True, 80, "ac"),
        (supply("BAT0", type="Battery", status="Not charging", capacity="79"), True, 79, "ac"),
        (supply("BAT0", type="Battery", status="Unknown", capacity="79"), True, 79, None),
        (supply("BAT0", type="Battery", status="Full", capacity="104"), True, 100, "ac"),
        (supply("BAT0", type="Battery", status="Full", capacity="255"), True, None, "ac"),
        (supply("BAT0", type="Battery", present="0", capacity="0"), False, None, "ac"),
        (supply("BAT0", type="Battery", scope="System", status="Full", capacity="50"), True, 50, "ac"),
        (supply("wacom", type="Battery", scope="Device", status="Discharging", capacity="1"), False, None, "ac"),
        (supply("BAT0", type="Battery", status="Discharging", energy_now="30", energy_full="120"), True, 25, "battery"),
        (
            supply("BAT0", **BATTERY, energy_now="10", energy_full="100")
            | supply("BAT1", **BATTERY, energy_now="50", energy_full="50"),
            True, 40, "battery",
        ),
        (supply("BAT0", **BATTERY) | supply("BAT1", **BATTERY | {"capacity": "40"}), True, 60, "battery"),
        ({f"{POWER}/BAT0/type": {"errno": "EIO"}}, False, None, "ac"),
        ({POWER: {"errno": "EACCES"}}, None, None, None),
    ],
)  # fmt: skip
def test_power(detected, given, battery, percent, source):
    facts = detected(given)
    assert (facts.get("battery"), facts.get("battery_percent"), facts.get("power_source")) == (battery, percent, source)


@pytest.mark.parametrize(
    ("given", "available"),
    [
        ({}, False),
        ({f"{PRESSURE}/cpu": {"errno": "EOPNOTSUPP"}, f"{PRESSURE}/memory": {"errno": "EOPNOTSUPP"}}, False),
        ({f"{PRESSURE}/cpu": {"errno": "EACCES"}, f"{PRESSURE}/memory": {"errno": "EACCES"}}, None),
        ({f"{PRESSURE}/memory": "some avg10=0.10 avg60=0.00 avg300=0.00 total=1\n"}, True),
        ({f"{PRESSURE}/memory": "junk"}, False),
    ],
)
def test_pressure_is_available_when_it_can_be_read(detected, given, available):
    assert detected(given).get("psi_available") is available


def test_pressure_of_all(detected):
    facts = detected(
        {
            f"{PRESSURE}/cpu": "some avg10=100.00 avg60=0.00 avg300=0.00 total=1\nfull avg10=0.00 avg60=0.00 total=0\n",
            f"{PRESSURE}/memory": "some avg10=7.05 avg60=0 total=1\nfull avg10=0.07 avg60=0.00 avg300=0.00 total=1\n",
            "/proc/loadavg": "12.07 1.00 1.00 1/999 1\n",
        }
    )
    assert facts["psi_cpu_some_avg10_centi"] == 10000
    assert facts["psi_memory_some_avg10_centi"] == 705
    assert facts["psi_memory_full_avg10_centi"] == 7
    assert facts["load1_centi"] == 1207


@pytest.mark.parametrize(
    ("some", "level"),
    [
        (None, None),
        (0, "none"),
        (99, "none"),
        (100, "low"),
        (499, "low"),
        (500, "medium"),
        (1499, "medium"),
        (1500, "high"),
    ],
)
def test_pressure_level(some, level):
    assert pressure_level(some) == level
