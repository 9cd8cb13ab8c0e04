"""One of many clients: makes one unary call again and again for a while, and says how often."""

import sys
import time

import grpc


def main() -> None:
    """Arguments: target, path, the request in hex, metadata as key=value. Stdin: the seconds."""
    target, path, request, *pairs = sys.argv[1:]
    metadata = [tuple(pair.split("=", 1)) for pair in pairs]
    payload = bytes.fromhex(request)
    with grpc.insecure_channel(target) as channel:
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
