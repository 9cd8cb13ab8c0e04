"""HLO text: the parser and the printer of modules."""
