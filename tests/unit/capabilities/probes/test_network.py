import pytest

NET, RDMA = "/sys/class/net", "/sys/class/infiniband"


def link(name, device=True, **files):
    given = {f"{NET}/{name}/{file}": text for file, text in files.items()}
    return given | ({f"{NET}/{name}/device/vendor": "0x8086\n"} if device else {f"{NET}/{name}/type": "1\n"})


@pytest.mark.parametrize(
    ("given", "speed"),
    [
        (link("eth0", speed="1000\n", operstate="up\n") | link("eth1", speed="25000\n", operstate="up\n"), 25000),
        (link("eth0", speed="1000\n", operstate="down\n"), None),
        (
            link("eth0", speed="1000\n", operstate="up\n") | link("veth1", False, speed="10000\n", operstate="up\n"),
            1000,
        ),
        (link("tap0", False, speed="10\n", operstate="up\n"), None),
        (link("bond0", False, speed="20000\n", operstate="up\n"), None),
        (link("eth0", speed="65535\n", operstate="up\n"), None),
        (link("eth0", speed="4294967295\n", operstate="up\n"), None),
        (link("eth0", speed="0\n", operstate="up\n"), None),
        (link("eth0", speed="junk\n", operstate="up\n"), None),
        (link("ib0", speed="200000\n", operstate="unknown\n", carrier="1\n"), 200000),
        (link("ib0", speed="200000\n", operstate="unknown\n", carrier="0\n"), None),
        ({f"{NET}": {"errno": "EACCES"}}, None),
    ],
)
def test_speed(detected, given, speed):
    assert detected(given).get("net_max_mbps") == speed


def port(device, number, state="4: ACTIVE", layer="InfiniBand", rate="400 Gb/sec (4X NDR)"):
    base = f"{RDMA}/{device}/ports/{number}"
    return {f"{base}/state": state + "\n", f"{base}/link_layer": layer + "\n", f"{base}/rate": rate + "\n"}


def test_rdma_counts_active_ports_and_their_rate(detected):
    facts = detected(
        {
            **port("mlx5_0", 1),
            **port("mlx5_0", 2, state="1: DOWN"),
            **port("mlx5_1", 1, layer="Ethernet", rate="2.5 Gb/sec (1X SDR)"),
        }
    )
    assert facts["rdma_devices"] == 2
    assert facts["rdma_active_ports"] == 2
    assert facts["rdma_max_gbps"] == 400
    assert facts["infiniband"] is True


def test_rdma_is_absent_without_its_class(detected):
    facts = detected({})
    assert not [key for key in facts if key.startswith("rdma") or key == "infiniband"]
