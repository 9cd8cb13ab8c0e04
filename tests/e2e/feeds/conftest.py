from tests.e2e.process import serving

QUEUE = 8
"""Items that each feed of the server may have."""


server = serving("--feed-items", str(QUEUE), "--feed-bytes", "4096")
