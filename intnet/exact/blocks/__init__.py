"""Numbers with an exponent a block, and with a scale a bucket: quantizers, loops, long sums."""
