"""The other ends of calls: addresses, connections, credentials and the identities they prove."""
