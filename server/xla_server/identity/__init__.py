"""Credentials, identities and roles of callers. Knows no gRPC.

`authenticator.py` makes an identity of a call's token, certificate or socket; `tokens.py`,
`web_tokens.py` and `certificates.py` read each kind. `authorise.py` is the table of all rpcs with
the role that each needs. `policy.py` decides where a server may listen with which protection.
`watched_file.py` reads files again when they change. docs/SECURITY.md is the page for operators.
"""
