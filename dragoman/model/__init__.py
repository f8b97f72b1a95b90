"""The Transformer of "Attention Is All You Need" (Vaswani et al. 2017) in plain PyTorch, one file per section.

Reading order: `attention.py` (3.2), `feed_forward.py` (3.3), `embedding.py` (3.4, 3.5), `masks.py` (3.2.3), `layers.py`
and `transformer.py` (3.1, figure 1). `shapes.py` names and counts parameters without building a model, and `trace.py`
records every intermediate tensor of a pass.
"""
