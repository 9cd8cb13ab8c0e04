"""Groups of checks of a driver, of its libraries, and of a platform on them."""
