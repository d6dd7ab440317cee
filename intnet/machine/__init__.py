"""What the processor gives: kernels and their cache, instructions, buffers, tiles of products."""
