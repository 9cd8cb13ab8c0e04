"""The compute capability that programs are compiled for on a device."""

from xla_server.backends.cuda.worker.exchange.protocol import NoDeviceError
from xla_server.target.gpu.properties import GPUS


def capability(major: int, minor: int) -> str:
    """Return the newest known compute capability that a device has.

    Raises NoDeviceError for a device that is older than all of them.
    """
    known = {int(name.removeprefix("sm_")): name for name in GPUS}
    fitting = [number for number in known if number <= major * 10 + minor]
    if not fitting:
        oldest = known[min(known)]
        raise NoDeviceError(f"a device must be {oldest} or newer, got sm_{major}{minor}")
    return known[max(fitting)]
