"""One of many clients: makes one unary call again and again for a while, and says how often."""

import sys
import time

import grpc

from tests.command_line import command_line


def main() -> None:
    """Call for as many seconds as standard input says."""
    parser = command_line("tests.benchmarks.transport.load_client", __doc__)
    for name in ("target", "path"):
        parser.add_argument(name)
    parser.add_argument("request", type=bytes.fromhex, help="in hexadecimal digits")
    parser.add_argument("metadata", nargs="*", help="key=value")
    given = parser.parse_args()
    metadata = [tuple(pair.split("=", 1)) for pair in given.metadata]
    path, payload = given.path, given.request
    with grpc.insecure_channel(given.target) as channel:
        call = channel.unary_unary(path)
        call(payload, metadata=metadata, wait_for_ready=True)
        print("ready", flush=True)
        end = time.monotonic() + float(sys.stdin.readline())
        count = 0
        while time.monotonic() < end:
            call(payload, metadata=metadata)
            count += 1
        print(count, flush=True)


if __name__ == "__main__":
    main()
