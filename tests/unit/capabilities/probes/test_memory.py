import pytest
from shoal.capabilities.probes.memory import probe

MEMINFO = "MemTotal: 16384000 kB\nMemFree: 8192000 kB\nMemAvailable: 12288000 kB\nSwapTotal: 2097148 kB\n"
GIB = 1024**3


def limits(group, **files):
    given = {"/proc/meminfo": MEMINFO, "/proc/self/cgroup": group}
    return given | {path.replace("|", "/"): text for path, text in files.items()}


def test_plain_machine(detected):
    facts = detected({"/proc/meminfo": MEMINFO})
    assert (facts["ram_mb"], facts["ram_limit_mb"], facts["ram_limited"]) == (16000, 16000, False)
    assert (facts["ram_available_mb"], facts["swap_mb"]) == (12000, 2047)


def test_a_line_whose_value_is_glued_to_its_name(detected):
    facts = detected(
        {"/proc/meminfo": "ShadowCallStack:10373888 kB\n" + MEMINFO + "\nHugePages_Total:       0\njunk\n:\n"}
    )
    assert facts["ram_mb"] == 16000


@pytest.mark.parametrize(
    ("text", "available"),
    [
        ("MemTotal: 1000 kB\nMemFree: 2048 kB\nMemAvailable: 5000 kB\n", None),
        ("MemTotal: 10240 kB\nMemFree: 2048 kB\n", 2),
        ("MemTotal: 10240 kB\nMemFree: 2048 kB\nActive(file): 1024 kB\nSReclaimable: 2048 kB\n", 4),
        ("MemTotal: 10240 kB\n", None),
        ("MemTotal: 10240 kB\nMemAvailable: 3072 kB\n", 3),
    ],
)
def test_available(detected, text, available):
    assert detected({"/proc/meminfo": text}).get("ram_available_mb") == available


@pytest.mark.parametrize(
    "sentinel", ["9223372036854771712", "9223372036854710272", "18446744073709551615", "-1", "max"]
)
def test_words_for_no_limit(detected, sentinel):
    facts = detected(limits("9:memory:/x\n") | {"/sys/fs/cgroup/memory/x/memory.limit_in_bytes": sentinel + "\n"})
    assert (facts["ram_limit_mb"], facts["ram_limited"]) == (16000, False)


def test_limit_of_an_ancestor_counts(detected):
    base = "/sys/fs/cgroup/system.slice"
    given = limits("0::/system.slice/shoal.service\n") | {
        f"{base}/memory.max": f"{4 * GIB}\n",
        f"{base}/memory.current": f"{GIB}\n",
        f"{base}/memory.stat": f"anon 1\ninactive_file {GIB // 2}\n",
        f"{base}/shoal.service/memory.max": "max\n",
        f"{base}/shoal.service/memory.current": "4096\n",
    }
    facts = detected(given)
    assert (facts["ram_limit_mb"], facts["ram_limited"], facts["ram_available_mb"]) == (4096, True, 3584)


@pytest.mark.parametrize(
    ("files", "source"),
    [
        ({}, "/proc/meminfo"),
        ({"memory.max": 4 * GIB}, "/sys/fs/cgroup/a/memory.max"),
        ({"memory.max": 4 * GIB, "memory.current": GIB}, "/sys/fs/cgroup/a/memory.max"),
        ({"memory.max": 15 * GIB, "memory.current": GIB}, "/proc/meminfo"),
    ],
)
def test_free_memory_names_what_bounds_it(pretend, files, source):
    machine = pretend(limits("0::/a\n") | {f"/sys/fs/cgroup/a/{name}": f"{size}\n" for name, size in files.items()})
    assert probe(machine.reader, machine.facades).sources["ram_available_mb"] == source


def test_a_limit_above_the_machine_is_none(detected):
    facts = detected(limits("0::/a\n") | {"/sys/fs/cgroup/a/memory.max": f"{64 * GIB}\n"})
    assert (facts["ram_limit_mb"], facts["ram_limited"]) == (16000, False)


def test_hybrid_reads_memory_where_its_controller_is(detected):
    given = limits("4:memory:/x\n1:name=systemd:/x\n0::/x\n") | {
        "/sys/fs/cgroup/memory/x/memory.limit_in_bytes": f"{2 * GIB}\n",
        "/sys/fs/cgroup/memory/x/memory.usage_in_bytes": f"{GIB}\n",
        "/sys/fs/cgroup/memory/x/memory.stat": "cache 1\ntotal_inactive_file 1048576\n",
        "/sys/fs/cgroup/unified/x/memory.max": "1\n",
    }
    facts = detected(given)
    assert (facts["ram_limit_mb"], facts["ram_available_mb"], facts["cgroup_version"]) == (2048, 1025, 1)


def test_container_that_sees_only_its_own_group(detected):
    mountinfo = "30 29 0:26 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
    given = limits("9:memory:/docker/abc\n") | {
        "/proc/self/mountinfo": mountinfo,
        "/sys/fs/cgroup/memory/memory.limit_in_bytes": f"{GIB}\n",
    }
    assert detected(given)["ram_limit_mb"] == 1024
    # Without a namespace and without a mount table the path is the host's: the mount's root is still read.
    del given["/proc/self/mountinfo"]
    assert detected(given)["ram_limit_mb"] == 1024


def test_group_outside_of_the_namespace(detected):
    given = limits("0::/../../other\n") | {
        "/proc/self/mountinfo": "30 29 0:26 /../.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
        "/sys/fs/cgroup/memory.max": f"{GIB}\n",
    }
    assert detected(given)["ram_limit_mb"] == 1024


def test_a_flat_ancestor_of_version_one_limits_only_itself(detected):
    base = "/sys/fs/cgroup/memory"
    given = limits("9:memory:/a/b\n") | {
        f"{base}/a/memory.limit_in_bytes": f"{GIB}\n",
        f"{base}/a/memory.use_hierarchy": "0\n",
        f"{base}/a/b/memory.limit_in_bytes": f"{2 * GIB}\n",
    }
    assert detected(given)["ram_limit_mb"] == 2048


def test_a_limit_that_cannot_be_read_is_a_warning(pretend):
    from shoal.capabilities.survey import detect

    machine = pretend(limits("0::/a\n") | {"/sys/fs/cgroup/a/memory.max": {"errno": "EACCES"}})
    found = detect(machine.reader, machine.facades)
    assert any("memory.max" in str(warning) and "EACCES" in str(warning) for warning in found.warnings)
    assert found.record.get("ram_limit_mb") == 16000
