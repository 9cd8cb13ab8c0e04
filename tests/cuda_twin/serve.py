"""The command of a server whose platform is the twin: `python -m tests.cuda_twin.serve serve ...`.

TWIN_DEVICE is the class of its devices.
"""

import os

from tests.cuda_twin.device.platform import twin_platform
from xla_server.app import cli
from xla_server.app.options.settings import Settings
from xla_server.app.serving import distribution
from xla_server.backends.platform import Backend


def _twin(settings: Settings) -> Backend:
    device = os.environ.get("TWIN_DEVICE", "TwinDriver")
    return twin_platform(settings.devices, device, max_value_bytes=settings.max_device_bytes)


if __name__ == "__main__":
    distribution.create_backend = _twin
    cli.main()
