"""Looking inside a step: operands, every number's way to its bits by the definition, measures."""
