"""Programs on several devices at once: shards, participants, and where these meet."""
