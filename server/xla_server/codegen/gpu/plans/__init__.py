"""Plans of libraries on a GPU: frozen records of what is computed, without a library's names."""
