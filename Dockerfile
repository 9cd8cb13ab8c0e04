# syntax=docker/dockerfile:1
# Build: docker build -t xla-service .
# Run:   docker run -p 1685:1685 -v xla-state:/var/lib/xla/state xla-service
# The first start makes a token and a certificate, and logs the line that connects.
FROM python:3.11-slim-bookworm AS build
WORKDIR /src
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY host host
COPY protos protos
COPY client client
COPY server server
RUN python -m venv /opt/xla \
 && /opt/xla/bin/pip install --no-cache-dir '.[server]'

FROM python:3.11-slim-bookworm
RUN useradd --system --uid 10001 --create-home --home-dir /var/lib/xla xla \
 && install -d -o xla -g xla -m 0700 /var/lib/xla/kernels /var/lib/xla/state
COPY --from=build /opt/xla /opt/xla
ENV PATH=/opt/xla/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    XLA_SERVER_LISTEN=0.0.0.0:1685,unix:/tmp/xla-server.socket \
    XLA_SERVER_TLS_SELF_SIGNED=1 \
    XLA_SERVER_COMPILATION_CACHE_DIR=/var/lib/xla/kernels \
    XDG_STATE_HOME=/var/lib/xla/state
USER xla
WORKDIR /var/lib/xla
EXPOSE 1685
# Draining takes up to the server's grace period; the orchestrator's must be longer.
STOPSIGNAL SIGTERM
# The check is a process of its own, on a processor that programs keep busy.
HEALTHCHECK --interval=30s --timeout=10s --start-period=30s --retries=3 \
  CMD ["xla-server", "health", "--target", "unix:/tmp/xla-server.socket"]
ENTRYPOINT ["xla-server"]
CMD ["serve"]
