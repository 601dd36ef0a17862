import attrs
from shoal.capabilities.health import check_health
from shoal.capabilities.survey import detect

GIB = 1024**3


def gpus(count, free=70, **calls):
    given = {"nvml:nvmlInit": 0, "nvml:nvmlDeviceGetCount": count}
    for index in range(count):
        given[f"nvml:nvmlDeviceGetName({index})"] = "NVIDIA A100-SXM4-80GB"
        given[f"nvml:nvmlDeviceGetMemoryInfo({index})"] = {"total": 80 * GIB, "free": free * GIB, "used": 0}
    return given | {f"nvml:{key}": value for key, value in calls.items()}


def record_of(pretend, given):
    machine = pretend(given)
    return detect(machine.reader, machine.facades).record


def check(pretend, record, given):
    machine = pretend(given)
    return check_health(record, machine.reader, machine.facades)


def test_nothing_changes_while_all_answer(pretend):
    record = record_of(pretend, gpus(8))
    health = check(pretend, record, gpus(8, free=10))
    assert health.record is record
    assert health.withdrawn == ()
    assert health.vitals == {"gpu_vram_free_mb": 10240, "gpu_vram_free_total_mb": 81920}


def test_a_lost_gpu_is_withdrawn(pretend):
    record = record_of(pretend, gpus(8)).with_labels({"rack": "b12"})
    health = check(pretend, record, gpus(8, **{"nvmlDeviceGetMemoryInfo(3)": {"nvml_error": 15}}))
    labels = health.record.labels
    assert (labels["gpu_count"], labels["gpu_failed_count"], labels["gpu_error"]) == (7, 1, "nvml:15")
    assert labels["gpu_vram_total_mb"] == 7 * 81920
    assert labels["rack"] == "b12"
    assert [group.count for group in health.record.devices] == [7]
    assert [group.count for group in health.withdrawn] == [1]
    assert health.record.digest != record.digest


def test_a_driver_that_was_replaced_withdraws_all(pretend):
    record = record_of(pretend, gpus(2))
    health = check(pretend, record, {"nvml:nvmlInit": {"nvml_error": 18}})
    labels = health.record.labels
    assert (labels["gpu_nvidia"], labels["gpu_count"], labels["gpu_error"]) == (False, 0, "nvml:18")
    assert health.record.devices == ()
    assert not [key for key in labels if key.startswith("gpu_vram") or key == "gpu_name"]


def test_what_comes_back_waits_for_the_next_detection(pretend):
    record = record_of(pretend, gpus(8))
    fewer = check(pretend, record, gpus(7)).record
    assert fewer.get("gpu_count") == 7
    again = check(pretend, fewer, gpus(8))
    assert again.record is fewer


def test_a_fact_that_cannot_be_read_this_time_withdraws_nothing(pretend):
    record = record_of(pretend, gpus(2))
    given = gpus(2, **{"nvmlDeviceGetName(0)": {"nvml_error": 999}, "nvmlDeviceGetMemoryInfo(1)": {"nvml_error": 999}})
    assert check(pretend, record, given).record is record


def test_a_machine_without_gpus_is_not_asked(pretend):
    def never(*arguments, **named):
        raise AssertionError("asked")

    record = record_of(pretend, {})
    machine = pretend({})
    nvml = type("Never", (), {"call": never})()
    assert check_health(record, machine.reader, attrs.evolve(machine.facades, nvml=nvml)).record is record


def test_other_devices_stay(pretend):
    bus = "/sys/bus/pci/devices/0000:00:0b.0"
    npu = {f"{bus}/class": "0x120000\n", f"{bus}/vendor": "0x8086\n"}
    record = record_of(pretend, gpus(1) | npu)
    health = check(pretend, record, {"nvml:nvmlInit": {"nvml_error": 999}} | npu)
    assert [group.kind for group in health.record.devices] == ["npu"]
    assert health.record.get("npu_count") == 1
