"""What client and server agree on: the XLA protobuf contract and the types around it."""
