"""The extra `server` of the package: what a server needs and a client does without."""

MODULES = (
    "llvmlite",
    "numba",
    "scipy",
    "grpc_health",
    "grpc_reflection",
    "jwt",
    "cryptography",
    "prometheus_client",
    "pydantic_settings",
    "typer",
)
"""Modules of the extra without which no server starts. A test holds them to pyproject.toml."""

INSTALL = "pip install 'xla-service[server]'"
"""The command that installs them."""


def advice(missing: str) -> str:
    """Return what to tell a user whose Python lacks these modules."""
    return f"the server's dependencies must be installed, got a Python without {missing}: {INSTALL}"
