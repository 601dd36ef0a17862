import pytest


@pytest.mark.parametrize(
    ("machine", "arch"),
    [
        ("x86_64", "amd64"), ("AMD64", "amd64"), ("aarch64", "arm64"), ("arm64", "arm64"), ("armv7l", "arm"),
        ("i686", "386"), ("riscv64", "riscv64"), ("s390x", "s390x"), ("ppc64le", "ppc64le"), ("loongarch64", "loong64"),
        ("sw_64", "sw_64"), ("\x01junk", "unknown"),
    ],
)  # fmt: skip
def test_arch_has_one_name(detected, machine, arch):
    assert detected({"call:os.uname": {"machine": machine}})["arch"] == arch


@pytest.mark.parametrize(
    ("release", "major", "minor"),
    [
        ("6.12.13_1", 6, 12), ("4.18.0-553.el8_10.x86_64", 4, 18), ("6.1", 6, 1), ("5.15.153.1-microsoft", 5, 15),
        ("6-rc1", 6, None), ("junk", None, None),
    ],
)  # fmt: skip
def test_kernel_numbers(detected, release, major, minor):
    facts = detected({"/proc/sys/kernel/osrelease": release})
    assert (facts["kernel"], facts.get("kernel_major"), facts.get("kernel_minor")) == (release, major, minor)


@pytest.mark.parametrize(
    ("given", "distro", "version"),
    [
        ({"/etc/os-release": 'ID=debian\nVERSION_ID="12"\n'}, "debian", "12"),
        ({"/usr/lib/os-release": "ID=fedora\nVERSION_ID=41\n"}, "fedora", "41"),
        ({"/etc/os-release": {"errno": "EACCES"}, "/usr/lib/os-release": "ID=alpine\n"}, "alpine", None),
        ({"/etc/os-release": 'ID="ol"\nVERSION_ID=\'9.4\'\nBAD LINE\n=x\nQ="open\n'}, "ol", "9.4"),
        ({"/etc/os-release": "\x00\x01\x02"}, None, None),
        ({}, None, None),
    ],
)
def test_distribution(detected, given, distro, version):
    facts = detected(given)
    assert (facts.get("distro"), facts.get("distro_version")) == (distro, version)


def test_a_name_that_is_no_text_is_left_out(pretend):
    from shoal.capabilities.survey import detect

    machine = pretend({"/proc/sys/kernel/hostname": "a\ufffdb\n"})
    found = detect(machine.reader, machine.facades)
    assert found.record.get("hostname") is None
    assert any("hostname" in str(warning) for warning in found.warnings)


def test_a_system_that_is_not_linux_is_asked_through_psutil(detected):
    facts = detected(
        {
            "call:os.uname": {"sysname": "Darwin", "machine": "arm64", "nodename": "mini", "release": "24.1.0"},
            "call:os.cpu_count": 10,
            "call:psutil": {
                "ram_mb": 32768, "ram_available_mb": 20000, "cpu_physical": 10, "battery": False, "power_source": "ac",
                "apple_silicon": True, "cpu_model": "Apple M2 Pro", "load1_centi": 150,
            },
        }
    )  # fmt: skip
    assert (facts["os"], facts["arch"], facts["hostname"]) == ("darwin", "arm64", "mini")
    assert (facts["cpu_count"], facts["cpu_usable_milli"], facts["ram_mb"]) == (10, 10000, 32768)
    assert (facts["gpu_count"], facts["gpu_name"], facts["gpu_memory_unified"]) == (1, "Apple M2 Pro", True)
    assert facts["gpu_shared_memory_mb"] == 32768
    assert facts["gpu_nvidia"] is False
    assert "gpu_vram_mb" not in facts
    assert (facts["load1_centi"], facts["power_source"]) == (150, "ac")
