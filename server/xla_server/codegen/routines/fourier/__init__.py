"""Steps of Fourier transforms over blocks of lines."""
