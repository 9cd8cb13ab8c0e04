"""The state of clients on the server: sessions with their values, programs, runs and feeds.

- `session_registry`: which session a call belongs to, and when it ends.
- `session`: one session, made of its parts; `shared_resources`: what all sessions share.
- `transfers/`, `runs/`: transfers of values; running of programs.
- `feeds/`, `programs/`: infeed, outfeed and channels; compiled programs by content.
- `values/`: handles, and the values behind them. `limits/`: quotas and fair shares.

Each part receives what it uses through its constructor; folders import downward in this order.
Protobuf messages are unknown here: `rpc.decode` converts them to records.
"""
