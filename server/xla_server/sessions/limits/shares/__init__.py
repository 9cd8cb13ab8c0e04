"""The identities of callers, and the shares of the server's resources that each may have."""
