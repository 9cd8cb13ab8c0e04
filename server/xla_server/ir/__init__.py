"""HLO modules: import, export, verification, and analyses of instructions."""
