"""The worker's end of a connection: one thread that answers one request after the other."""

import collections
import os
import socket
import sys
import threading

from xla_server.backends.cuda.worker.exchange import messages, protocol
from xla_server.backends.cuda.worker.exchange.messages import Reader, RequestError, send
from xla_server.backends.cuda.worker.executor import Lane, OwnedDevice, ProgramRun
from xla_server.backends.cuda.worker.loaded import WorkerProgram

EXIT_LOST = 3
"""The worker's exit code after an error that leaves its device unusable."""


class Connection:
    """One connection with a stream of its own and at most one run."""

    def __init__(self, device: OwnedDevice, channel: socket.socket, index: int) -> None:
        self._device, self._channel, self._index = device, channel, index
        self._run: ProgramRun | None = None

    def serve(self) -> None:
        """Answer requests until the connection closes; end the process if the device is lost."""
        try:
            self._device.driver.make_current()
            self._stream = self._device.driver.new_stream()
            self._lane = Lane(self._device, self._stream, self._index)
            reader = Reader(self._channel)
            while True:
                request = reader.receive(messages.MAX_REQUEST_BYTES)
                send(self._channel, self._answer(request))
        except (EOFError, OSError):
            self._abandon()
        except BaseException as error:  # A worker with a thread less would hang its callers.
            end_process(error, self._device.recent)

    def start(self) -> None:
        """Serve in a thread."""
        threading.Thread(target=self.serve, name=f"connection {self._index}", daemon=True).start()

    def _answer(self, request: messages.Request) -> object:
        try:
            for number in request.unloaded:
                del self._device.programs[number]
            for address in request.freed:
                self._device.driver.free(address, self._stream)
            return self._do(request.body)
        except (protocol.OutOfDeviceMemoryError, protocol.RunCancelledError, RequestError) as error:
            return error
        except protocol.DeviceLostError:
            raise
        except Exception as error:  # The server reports the error of a request.
            return RequestError(f"{type(error).__name__}: {error}")

    def _do(self, body: messages.Body) -> object:
        driver, stream = self._device.driver, self._stream
        match body:
            case messages.Allocate(byte_size, data):
                address = driver.allocate(max(byte_size, 1), stream)
                if data:
                    driver.upload(address, memoryview(data), stream)
                # Other streams may use it from now on.
                driver.synchronise(stream)
                return address
            case messages.Upload(address, data):
                driver.upload(address, memoryview(data), stream)
                driver.synchronise(stream)
            case messages.Download(address, byte_size):
                if byte_size > messages.INLINE_BYTES:
                    raise RequestError(
                        f"an array in a message must be small, got {byte_size} bytes"
                    )
                read = bytearray(byte_size)
                driver.download(memoryview(read), address, stream)
                driver.synchronise(stream)
                return read
            case messages.UploadStaged(address, offset, byte_size):
                driver.upload(address, self._device.shared.block(offset, byte_size), stream)
                driver.synchronise(stream)
            case messages.DownloadStaged(address, offset, byte_size):
                driver.download(self._device.shared.block(offset, byte_size), address, stream)
                driver.synchronise(stream)
            case messages.Load(program, constants):
                loaded = WorkerProgram(driver, program, constants)
                number = next(self._device.numbers)
                self._device.programs[number] = loaded
                return number
            case messages.Run(program, parameters, after, is_launched):
                self._abandon()
                loaded = self._device.programs[program]
                self._run = ProgramRun(
                    self._lane, loaded, parameters, after, is_launched=is_launched
                )
                return self._went_on()
            case messages.Resume():
                return self._went_on()
            case messages.Abandon():
                self._abandon()
        return None

    def _went_on(self) -> object:
        run, self._run = self._run, None
        if run is None:
            raise RequestError("a run must be suspended or launched to go on, got none")
        outcome = run.go_on()
        if not isinstance(outcome, protocol.Finished):
            self._run = run
        return outcome

    def _abandon(self) -> None:
        run, self._run = self._run, None
        if run is not None:
            run.abandon()


def end_process(error: BaseException, recent: collections.deque[str]) -> None:
    """Write why the process ends, with the last launches, and end it with all its threads."""
    last = ", ".join(recent) or "none"
    print(f"{type(error).__name__}: {error}; last launches: {last}", file=sys.stderr, flush=True)
    os._exit(EXIT_LOST)
