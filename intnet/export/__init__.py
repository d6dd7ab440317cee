"""What leaves the house: a trained network as integers, for C, ONNX and hardware; quantizers for PyTorch.

    program = writing.of_run(run)        the integer operations of one image, with their constants
    program.ops, program.values          and what is proven of every value
    interpret.logits(program, image)     the reference: plain Python integers
    batch.logits(program, images)        the same in NumPy, many images at once

What they all write comes from a `Program`: `c_source.py`, `onnx_model.py`, `memories.py`,
`model_file.py`; `trace.py` makes one of a run. `torch.py` stands alone.
"""
