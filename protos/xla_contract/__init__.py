"""The contract between client and server: XLA's protobuf messages and the types around them."""
