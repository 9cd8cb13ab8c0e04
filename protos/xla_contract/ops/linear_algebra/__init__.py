"""Rules and wire forms of factorisations, triangular systems and Fourier transforms."""
