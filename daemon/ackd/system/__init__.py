"""Things that the kernel offers and Python does not wrap: system calls, process trees, threads, clocks."""
