"""The Transformer of "Attention Is All You Need" (Vaswani et al. 2017) in plain PyTorch.

Reading order, with sections of the paper: `attention.py` (3.2, masks included), `embedding.py` (3.4, 3.5), `layers.py`
(3.1, 3.3) and `transformer.py` (3.1, figure 1). `shapes.py` names and counts parameters without building a
model, and `trace.py` records every intermediate tensor of a pass.
"""
