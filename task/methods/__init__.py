"""Local methods: one file each, holding a pure function, a small class and its method card."""
