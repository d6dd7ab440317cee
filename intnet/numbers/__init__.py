"""A number: rounding, formats, tensors of codes, random words, float32's order, packed bits."""
