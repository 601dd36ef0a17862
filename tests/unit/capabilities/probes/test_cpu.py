import pytest

ONLINE = "/sys/devices/system/cpu/online"
CPU = "/sys/devices/system/cpu"
NODE = "/sys/devices/system/node"

S390X = """vendor_id       : IBM/S390
# processors    : 2
bogomips per cpu: 3241.00
max thread id   : 0
features\t: esan3 zarch stfle msa ldisp eimm dfp edat etf3eh highgprs te vx vxd vxe gs sie
facilities      : 0 1 2 3 4
cache0          : level=1 type=Data scope=Private size=128K
processor 0: version = FF,  identification = 0133E8,  machine = 2964
processor 1: version = FF,  identification = 0133E8,  machine = 2964

cpu number      : 0
cpu MHz dynamic : 5000
cpu MHz static  : 5000

cpu number      : 1
"""

RISCV = """processor\t: 0
hart\t\t: 1
isa\t\t: rv64imafdcv_zicntr_zba_zbb
mmu\t\t: sv48
uarch\t\t: thead,c920

processor\t: 1
hart\t\t: 2
isa\t\t: rv64imafdc_zicntr_zba_zbb
mmu\t\t: sv48
uarch\t\t: thead,c920
"""

POWER = """processor\t: 0
cpu\t\t: POWER9 (architected), altivec supported
clock\t\t: 2200.000000MHz
revision\t: 2.2 (pvr 004e 1202)

processor\t: 8
cpu\t\t: POWER9 (architected), altivec supported

timebase\t: 512000000
platform\t: pSeries
model\t\t: IBM pSeries (emulated by qemu)
"""

BIG_LITTLE = "".join(
    f"processor\t: {cpu}\nFeatures\t: fp asimd aes{' sve' if cpu > 3 else ''}\n"
    f"CPU implementer\t: 0x41\nCPU part\t: {part}\n\n"
    for cpu, part in enumerate(["0xd05"] * 4 + ["0xd0b"] * 4)
)


def test_s390x_lists_its_processors_on_lines(detected):
    facts = detected({"/proc/cpuinfo": S390X})
    assert facts["arch"] == "s390x"
    assert facts["cpu_count"] == 2
    assert facts["cpu_model"] == "IBM z13"
    assert facts["cpu_feature_vx"] is True
    assert facts["cpu_hybrid"] is False
    assert "cpu_max_mhz" not in facts


def test_riscv_counts_only_extensions_of_all_harts(detected):
    facts = detected({"/proc/cpuinfo": RISCV})
    assert facts["arch"] == "riscv64"
    assert facts["cpu_count"] == 2
    assert facts["cpu_model"] == "thead,c920"
    assert "cpu_feature_rvv" not in facts
    with_vectors = detected({"/proc/cpuinfo": RISCV.replace("rv64imafdc_", "rv64imafdcv_")})
    assert with_vectors["cpu_feature_rvv"] is True


def test_power_numbers_with_gaps(detected):
    facts = detected({"/proc/cpuinfo": POWER, ONLINE: "0,8\n"})
    assert facts["arch"] == "ppc64le"
    assert facts["cpu_count"] == 2
    assert facts["cpu_model"] == "POWER9"
    assert facts["cpu_feature_altivec"] is True
    assert facts["cpu_feature_vsx"] is True


def test_arm_cores_of_two_kinds(detected):
    capacities = {f"{CPU}/cpu{cpu}/cpu_capacity": "446\n" if cpu < 4 else "1024\n" for cpu in range(8)}
    facts = detected({"/proc/cpuinfo": BIG_LITTLE, ONLINE: "0-7", **capacities})
    assert facts["cpu_model"] == "Cortex-A55 + Cortex-A76"
    assert facts["cpu_hybrid"] is True
    assert (facts["cpu_performance_cores"], facts["cpu_efficiency_cores"]) == (4, 4)
    assert facts["cpu_feature_neon"] is True
    assert "cpu_feature_sve" not in facts


def test_an_unknown_arm_core_keeps_its_numbers(detected):
    text = "processor : 0\nCPU implementer : 0xc0\nCPU part : 0xfff\n"
    assert detected({"/proc/cpuinfo": text})["cpu_model"] == "Ampere-0xfff"


def test_intel_hybrid_counts_cores_not_threads(detected):
    siblings = {f"{CPU}/cpu{cpu}/topology/core_cpus_list": f"{cpu & ~1}-{cpu | 1}\n" for cpu in range(16)}
    siblings |= {f"{CPU}/cpu{cpu}/topology/core_cpus_list": f"{cpu}\n" for cpu in range(16, 24)}
    facts = detected(
        {
            ONLINE: "0-23\n",
            "/sys/devices/cpu_core/cpus": "0-15\n",
            "/sys/devices/cpu_atom/cpus": "16-23\n",
            **siblings,
        }
    )
    assert facts["cpu_hybrid"] is True
    assert (facts["cpu_performance_cores"], facts["cpu_efficiency_cores"]) == (8, 8)
    assert facts["cpu_physical"] == 16
    assert facts["cpu_smt"] is True


def test_an_offline_sibling_is_no_smt(detected):
    siblings = {f"{CPU}/cpu{cpu}/topology/thread_siblings_list": f"{cpu},{cpu + 4}\n" for cpu in range(4)}
    facts = detected({ONLINE: "0-3\n", **siblings})
    assert facts["cpu_physical"] == 4
    assert facts["cpu_smt"] is False


def test_topology_of_cpuinfo_where_there_are_no_files(detected):
    text = "".join(
        f"processor\t: {cpu}\nmodel name\t: Intel(R) Xeon(R)   CPU\nphysical id\t: {cpu // 4}\ncore id\t: {cpu % 2}\n\n"
        for cpu in range(8)
    )
    facts = detected({"/proc/cpuinfo": text})
    assert (facts["cpu_sockets"], facts["cpu_physical"], facts["cpu_smt"]) == (2, 4, True)
    assert facts["cpu_model"] == "Intel(R) Xeon(R) CPU"


def test_a_package_of_minus_one_is_no_socket(detected):
    facts = detected({ONLINE: "0-1", **{f"{CPU}/cpu{n}/topology/physical_package_id": "-1\n" for n in range(2)}})
    assert "cpu_sockets" not in facts


def test_features_are_those_of_all_online_processors(detected):
    flags = ["fpu avx avx2 avx512f", "fpu avx avx2"]
    text = "".join(f"processor\t: {n}\nflags\t\t: {words}\n\n" for n, words in enumerate(flags))
    facts = detected({"/proc/cpuinfo": text})
    assert facts["cpu_feature_avx2"] is True
    assert "cpu_feature_avx512" not in facts


def test_three_thousand_lines_of_cpuinfo(detected):
    block = "vendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC 9754\nflags\t\t: " + "fpu avx " * 40 + "\n"
    text = "".join(f"processor\t: {n}\n{block}physical id\t: {n // 256}\ncore id\t: {n % 128}\n\n" for n in range(512))
    assert len(text.splitlines()) > 3000
    facts = detected({"/proc/cpuinfo": text, ONLINE: "0-511"})
    assert facts["cpu_count"] == 512
    assert facts["cpu_physical"] == 256
    assert facts["cpu_model"] == "AMD EPYC 9754"


def test_numa_nodes_without_processors_and_with_gaps(detected):
    facts = detected({ONLINE: "0-127", f"{NODE}/online": "0,8,252-255\n", f"{NODE}/has_cpu": "0,8\n"})
    assert (facts["numa_nodes"], facts["numa_cpu_nodes"]) == (6, 2)
    by_lists = detected(
        {
            f"{NODE}/online": "0-2\n",
            f"{NODE}/node0/cpulist": "0-31\n",
            f"{NODE}/node1/cpulist": "32-63\n",
            f"{NODE}/node2/cpulist": "\n",
        }
    )
    assert (by_lists["numa_nodes"], by_lists["numa_cpu_nodes"]) == (3, 2)


@pytest.mark.parametrize(
    ("files", "milli"),
    [
        ({"cpu.max": "max 100000\n"}, 8000),
        ({"cpu.max": "max\n"}, 8000),
        ({"cpu.max": "250000 100000\n"}, 2500),
        ({"cpu.max": "50000\n"}, 500),
        ({"cpu.max": "9000000 100000\n"}, 8000),
        ({"cpu.max": "1 1000000\n"}, 1),
        ({"cpu.weight": "10\n"}, 8000),
        ({"cpuset.cpus.effective": "1,3,5-6\n"}, 4000),
        ({"cpuset.cpus.effective": "1,3,5-6\n", "cpu.max": "150000 100000"}, 1500),
        ({"cpuset.cpus": "\n"}, 8000),
        ({"cpu.max": "junk 5\n"}, 8000),
    ],
)
def test_usable_by_the_own_group(detected, files, milli):
    given = {"/proc/self/cgroup": "0::/a/b\n", ONLINE: "0-7\n"}
    given |= {f"/sys/fs/cgroup/a/b/{name}": text for name, text in files.items()}
    assert detected(given)["cpu_usable_milli"] == milli


def test_usable_is_the_tightest_of_all_ancestors(detected):
    given = {
        "/proc/self/cgroup": "0::/kubepods.slice/pod1/c1\n",
        ONLINE: "0-7\n",
        "/sys/fs/cgroup/kubepods.slice/cpu.max": "400000 100000\n",
        "/sys/fs/cgroup/kubepods.slice/pod1/cpu.max": "200000 100000\n",
        "/sys/fs/cgroup/kubepods.slice/pod1/c1/cpu.max": "max 100000\n",
    }
    assert detected(given)["cpu_usable_milli"] == 2000


def test_usable_in_version_one(detected):
    given = {
        "/proc/self/cgroup": "4:cpu,cpuacct:/docker/abc\n3:cpuset:/docker/abc\n",
        "/proc/self/mountinfo": (
            "30 29 0:26 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n"
            "31 29 0:27 /docker/abc /sys/fs/cgroup/cpuset ro - cgroup cgroup rw,cpuset\n"
        ),
        "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "350000\n",
        "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
        "/sys/fs/cgroup/cpu,cpuacct/cpu.shares": "512\n",
        "/sys/fs/cgroup/cpuset/cpuset.cpus": "0-5\n",
        ONLINE: "0-7\n",
    }
    facts = detected(given)
    assert facts["cpu_usable_milli"] == 3500
    assert facts["cgroup_version"] == 1
    assert facts["cpu_guaranteed_milli"] == 500


def test_affinity_and_cpuset_are_cut_with_each_other(detected):
    given = {
        "/proc/self/cgroup": "0::/\n",
        "/sys/fs/cgroup/cpuset.cpus.effective": "0-3\n",
        ONLINE: "0-7\n",
        "call:os.sched_getaffinity": [2, 3, 4, 5],
    }
    assert detected(given)["cpu_usable_milli"] == 2000


def test_affinity_that_cannot_be_asked_for_is_no_limit(detected):
    assert detected({ONLINE: "0-7\n", "call:os.sched_getaffinity": {"errno": "EPERM"}})["cpu_usable_milli"] == 8000


@pytest.mark.parametrize(
    ("group", "file", "text", "milli"),
    [
        ("0::/kubepods.slice/pod/c\n", "/sys/fs/cgroup/kubepods.slice/pod/c/cpu.weight", "59\n", 1486),
        ("2:cpu:/kubepods/pod/c\n", "/sys/fs/cgroup/cpu/kubepods/pod/c/cpu.shares", "512\n", 500),
        ("2:cpu:/kubepods/pod/c\n", "/sys/fs/cgroup/cpu/kubepods/pod/c/cpu.shares", "2\n", None),
        ("2:cpu:/kubepods/pod/c\n", "/sys/fs/cgroup/cpu/kubepods/pod/c/cpu.shares", "1024\n", None),
        ("0::/user.slice\n", "/sys/fs/cgroup/user.slice/cpu.weight", "50\n", None),
    ],
)
def test_guaranteed_is_what_an_orchestrator_asked_for(detected, group, file, text, milli):
    assert detected({"/proc/self/cgroup": group, file: text}).get("cpu_guaranteed_milli") == milli


@pytest.mark.parametrize(
    ("files", "base", "most"),
    [
        ({"cpufreq/policy0/cpuinfo_max_freq": "3700000", "cpufreq/policy0/base_frequency": "2100000"}, 2100, 3700),
        ({"cpufreq/policy0/cpuinfo_max_freq": "1800000", "cpufreq/policy4/cpuinfo_max_freq": "2400000"}, None, 2400),
        ({"cpu0/cpufreq/cpuinfo_max_freq": "0"}, None, None),
        ({"cpu0/cpufreq/scaling_max_freq": "2000000"}, None, 2000),
        ({"cpu0/acpi_cppc/nominal_freq": "0"}, None, None),
        ({"cpu0/cpufreq/scaling_cur_freq": "2000000"}, None, None),
        ({"cpufreq/policy0/cpuinfo_max_freq": "<unknown>"}, None, None),
    ],
)
def test_frequencies(detected, files, base, most):
    facts = detected({ONLINE: "0\n", **{f"{CPU}/{name}": text for name, text in files.items()}})
    assert (facts.get("cpu_base_mhz"), facts.get("cpu_max_mhz")) == (base, most)


def test_counts_when_sysfs_is_hidden(detected):
    facts = detected({ONLINE: {"errno": "EACCES"}, "/proc/cpuinfo": "processor : 0\n\nprocessor : 1\n"})
    assert facts["cpu_count"] == 2
    assert detected({ONLINE: "0-99999999\n", "call:os.cpu_count": 3})["cpu_count"] == 3
