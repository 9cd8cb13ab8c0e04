"""Programs on several devices at once: shards, participants and their rendezvous."""
