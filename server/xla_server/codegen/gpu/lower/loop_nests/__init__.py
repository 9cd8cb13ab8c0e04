"""Loop nests on a GPU: the kernel of the first schedule that fits."""
