"""Options of servers in several processes."""

import pytest

from xla_server.app.endings import ConfigurationError
from xla_server.app.options.settings import Settings
from xla_server.app.serving.distribution import joined_world


def test_one_process_has_nothing_for_mpi_to_reduce() -> None:
    with pytest.raises(
        ConfigurationError, match="fast_collectives: needs processes that MPI joins"
    ):
        joined_world(Settings(fast_collectives=True))
