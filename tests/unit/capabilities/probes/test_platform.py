import pytest

GUEST = "processor : 0\nflags : fpu hypervisor avx\n"
HOST = "processor : 0\nflags : fpu vmx avx\n"
DMI = "/sys/class/dmi/id"
CLOCKS = "/sys/devices/system/clocksource/clocksource0/available_clocksource"


def dmi(**fields):
    return {f"{DMI}/{name}": text + "\n" for name, text in fields.items()}


@pytest.mark.parametrize(
    ("given", "virt"),
    [
        ({"/proc/cpuinfo": HOST, **dmi(sys_vendor="Dell Inc.", product_name="PowerEdge R760")}, None),
        ({"/proc/cpuinfo": GUEST, CLOCKS: "kvm-clock tsc acpi_pm\n"}, "kvm"),
        ({"/proc/cpuinfo": GUEST, CLOCKS: "tsc hyperv_clocksource_tsc_page acpi_pm\n"}, "hyperv"),
        ({"/proc/cpuinfo": GUEST, **dmi(sys_vendor="VMware, Inc.", product_name="VMware7,1")}, "vmware"),
        ({"/proc/cpuinfo": GUEST, **dmi(sys_vendor="innotek GmbH", product_name="VirtualBox")}, "virtualbox"),
        ({"/proc/cpuinfo": GUEST, **dmi(sys_vendor="QEMU", product_name="Standard PC (Q35 + ICH9, 2009)")}, "qemu"),
        ({"/proc/cpuinfo": GUEST, **dmi(sys_vendor="Microsoft Corporation", product_name="Virtual Machine")}, "hyperv"),
        ({"/proc/cpuinfo": HOST, **dmi(sys_vendor="Microsoft Corporation", product_name="Surface Laptop")}, None),
        ({"/proc/cpuinfo": GUEST}, "vm-other"),
        ({"/sys/hypervisor/type": "xen\n"}, "xen"),
        ({"/sys/hypervisor/type": "xen\n", "/proc/xen/capabilities": "control_d\n"}, None),
        ({"/proc/device-tree/hypervisor/compatible": "linux,kvm\0"}, "kvm"),
        ({"/proc/device-tree/ibm,partition-name": "lpar1"}, "powervm"),
        (
            {"/proc/device-tree/ibm,partition-name": "x", "/proc/device-tree/model": "IBM pSeries (emulated by qemu)"},
            "kvm",
        ),
        ({"/proc/cpuinfo": "vendor_id : IBM/S390\n", "/proc/sysinfo": "VM00 Control Program: z/VM    7.2.0\n"}, "zvm"),
        ({"/proc/cpuinfo": "vendor_id : IBM/S390\n", "/proc/sysinfo": "VM00 Control Program: KVM/Linux\n"}, "kvm"),
        ({"/proc/cpuinfo": "vendor_id : IBM/S390\n", "/proc/sysinfo": "LPAR Number: 1\n"}, None),
        ({"/proc/cpuinfo": GUEST, **dmi(sys_vendor="Amazon EC2", product_name="m7i.large")}, "kvm"),
        ({"/proc/cpuinfo": HOST, **dmi(sys_vendor="Amazon EC2", product_name="m7i.metal-24xl")}, None),
        ({"call:os.uname": {"machine": "aarch64"}, **dmi(sys_vendor="Amazon EC2", product_name="m7g.metal")}, None),
    ],
)
def test_virt(detected, given, virt):
    assert detected(given).get("virt") == virt


@pytest.mark.parametrize(
    ("fields", "cloud"),
    [
        ({"sys_vendor": "Amazon EC2"}, "aws"),
        ({"bios_version": "4.11.amazon"}, "aws"),
        ({"sys_vendor": "Google", "product_name": "Google Compute Engine"}, "gcp"),
        ({"sys_vendor": "Google", "product_name": "Eve"}, None),
        ({"sys_vendor": "Microsoft Corporation", "chassis_asset_tag": "7783-7084-3265-9085-8269-3286-77"}, "azure"),
        ({"sys_vendor": "Microsoft Corporation", "product_name": "Virtual Machine"}, None),
        ({"sys_vendor": "DigitalOcean", "product_name": "Droplet"}, "digitalocean"),
        ({"sys_vendor": "Hetzner", "product_name": "vServer"}, "hetzner"),
        ({"chassis_asset_tag": "OracleCloud.com"}, "oracle"),
        ({"sys_vendor": "OpenStack Foundation"}, "openstack"),
        ({"sys_vendor": "Dell Inc."}, None),
    ],
)
def test_cloud(detected, fields, cloud):
    assert detected(dmi(**fields)).get("cloud") == cloud


MOUNTS = "22 1 254:0 / / rw - ext4 /dev/vda rw\n"
OVERLAY = "496 495 0:30 / / rw - overlay overlay rw,lowerdir=/x\n"


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({"/.dockerenv": "", "/proc/self/mountinfo": OVERLAY}, "docker"),
        ({"/.dockerenv": ""}, "docker"),
        ({"/run/.containerenv": "", "/proc/self/cgroup": "0::/\n"}, "podman"),
        ({"/run/.containerenv": 'engine="buildah-1.37"\nname="x"\n'}, "buildah"),
        ({"/run/systemd/container": "systemd-nspawn\n"}, "systemd-nspawn"),
        ({"/proc/1/environ": "PATH=/bin\0container=lxc\0"}, "lxc"),
        ({"env:container": "podman"}, "podman"),
        ({"env:KUBERNETES_SERVICE_HOST": "10.0.0.1", "/.dockerenv": ""}, "kubernetes"),
        (
            {"/proc/self/cgroup": "0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-0123456789ab.scope\n"},
            "kubernetes",
        ),
        ({"/proc/self/cgroup": "5:memory:/docker/0123456789abcdef\n"}, "docker"),
        ({"/proc/self/cgroup": "0::/lxc.payload.web/init.scope\n"}, "lxc"),
        ({"/proc/self/mountinfo": "1 2 0:9 /proc/uptime /proc/uptime rw - fuse.lxcfs lxcfs rw\n"}, "lxc"),
        ({"/.singularity.d/env/01-base.sh": ""}, "apptainer"),
        ({"/proc/vz/veinfo": ""}, "openvz"),
        ({"/proc/vz/veinfo": "", "/proc/bc/0": "", "/proc/self/cgroup": "0::/\n"}, None),
        ({"/proc/self/cgroup": "0::/system.slice/docker.service\n"}, None),
        (
            {"/proc/self/mountinfo": MOUNTS + "9 1 0:50 / /var/lib/docker/overlay2/x/merged rw - overlay overlay rw\n"},
            None,
        ),
        ({"/.dockerenv": "", "/proc/self/mountinfo": MOUNTS}, None),
        ({"/run/systemd/container": "wsl\n", "/proc/self/cgroup": "0::/\n"}, None),
    ],
)
def test_container(detected, given, kind):
    facts = detected(given)
    assert facts.get("container_kind") == kind
    assert facts.get("container") is (kind is not None)


def test_container_is_unknown_when_nothing_can_be_read(detected):
    assert "container" not in detected({})


@pytest.mark.parametrize(
    ("given", "kvm"),
    [
        ({"/dev/kvm": ""}, True),
        ({}, False),
        ({"/dev/kvm": {"errno": "EACCES"}}, False),
        ({"/dev/kvm": {"errno": "EIO"}}, None),
    ],
)
def test_kvm_is_by_permission(detected, given, kvm):
    assert detected(given).get("kvm") is kvm


@pytest.mark.parametrize(
    ("given", "tpm"),
    [
        ({"/sys/class/tpm/tpm0/tpm_version_major": "2\n"}, 2),
        ({"/sys/class/tpm/tpm0/device/description": "TPM 2.0 Device\n"}, 2),
        ({"/sys/class/tpm/tpm0/caps": "Manufacturer: 0x49465800\nTCG version: 1.2\nFirmware version: 4.40\n"}, 1),
        ({"/sys/class/tpm": {"dir": []}}, None),
        ({}, None),
    ],
)
def test_tpm(detected, given, tpm):
    assert detected(given).get("tpm") == tpm


@pytest.mark.parametrize(
    ("release", "wsl"),
    [("5.15.153.1-microsoft-standard-WSL2", True), ("4.4.0-19041-Microsoft", True), ("6.8.0-1014-azure", False)],
)
def test_wsl(detected, release, wsl):
    facts = detected({"/proc/sys/kernel/osrelease": release + "\n"})
    assert facts["wsl"] is wsl
    assert facts.get("virt") == ("hyperv" if "WSL2" in release else None)
