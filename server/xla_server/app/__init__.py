"""Starting, configuring and stopping a server."""
