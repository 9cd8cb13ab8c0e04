"""Credentials, identities and roles of callers. Knows no gRPC."""
