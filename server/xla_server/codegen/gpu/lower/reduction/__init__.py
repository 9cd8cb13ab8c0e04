"""Scans and select-and-scatter on a GPU. Other reductions are loop nests."""
