"""Importing a module reads nothing of the host: no processor, no memory, no file of the kernel."""

import subprocess
import sys

import pytest

IMPORTS = """
import importlib, os, pkgutil, sys
import llvmlite.binding

NAMES = ("xla_host", "xla_contract", "xla_client", "xla_server")

def check(what):
    frame = sys._getframe(1)
    while frame:
        module = frame.f_globals.get("__name__", "")
        root = module.partition(".")[0]
        if root in NAMES:
            raise AssertionError(f"{module} asks for {what} at import")
        # Libraries may count processors: the first frame outside the standard library counts.
        if root not in sys.stdlib_module_names and root != "__main__":
            return
        frame = frame.f_back

def guard(holder, name):
    asked = getattr(holder, name)
    def guarded(*operands, **options):
        check(f"{holder.__name__}.{name}")
        return asked(*operands, **options)
    setattr(holder, name, guarded)

def audit(event, operands):
    if event in ("open", "os.listdir", "os.scandir"):
        path = operands[0]
        path = os.fsdecode(path) if isinstance(path, str | bytes) else ""
        if path.startswith(("/proc", "/sys")):
            check(f"{event} {path}")

for name in ("cpu_count", "process_cpu_count", "sched_getaffinity", "sysconf", "getloadavg"):
    if hasattr(os, name):
        guard(os, name)
for name in ("get_host_cpu_name", "get_host_cpu_features"):
    guard(llvmlite.binding, name)
sys.addaudithook(audit)

exec(sys.argv[1], {"__name__": "xla_host.added", "os": os})
for name in NAMES:
    package = importlib.import_module(name)
    for module in pkgutil.walk_packages(package.__path__, f"{name}."):
        # What needs a driver is imported by the processes that own a device.
        driver, libraries = ".worker.device.cuda_driver", ".worker.libraries.cu"
        is_of_device = driver in module.name or libraries in module.name
        if not module.name.endswith("__main__") and not is_of_device:
            importlib.import_module(module.name)
print("all")
"""


def _imported(added: str = "") -> subprocess.CompletedProcess[str]:
    """Import all modules, and run what one more would do, in a process of its own."""
    return subprocess.run([sys.executable, "-c", IMPORTS, added], capture_output=True, text=True)


def test_no_module_asks_for_anything_of_the_host_at_import() -> None:
    done = _imported()
    assert done.stdout.strip() == "all", done.stderr


@pytest.mark.parametrize(
    ("requested", "name"),
    [
        ("os.cpu_count()", "os.cpu_count"),
        ("os.sched_getaffinity(0)", "os.sched_getaffinity"),
        ("os.sysconf('SC_PAGE_SIZE')", "os.sysconf"),
        ("import multiprocessing\nmultiprocessing.cpu_count()", "os.cpu_count"),
        ("import llvmlite.binding as b\nb.get_host_cpu_name()", "get_host_cpu_name"),
        ("import llvmlite.binding as b\nb.get_host_cpu_features()", "get_host_cpu_features"),
        ("import pathlib\npathlib.Path('/proc/meminfo').read_text()", "open /proc/meminfo"),
        ("os.listdir('/sys')", "os.listdir /sys"),
    ],
)
def test_a_module_that_asks_is_found(requested: str, name: str) -> None:
    done = _imported(requested)
    assert f"xla_host.added asks for {name}" in done.stderr.replace("llvmlite.binding.", "")
