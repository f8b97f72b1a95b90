"""Beam search of one model in machine code, for CPUs. Free of torch.

A decoding step of all sentences is one call, from token ids to token ids. `searches.TransformerSearch` uses this
package for beam search of one model on a CPU in float32, int16 or int8, if numba works and 16 divides the width of
attention heads. Everything else runs in `inference/search` with `inference/tensors`.

| file | content |
|---|---|
| `layout.py` | the arrays that the other files work on, with their shapes |
| `weights.py` | a model's weights: quantized and packed into panels for the matrix products |
| `memory.py` | allocation of buffers and of the state of searches |
| `layers.py` | the Transformer's layers on rows: products, norms, attention, feed-forward |
| `beams.py` | one step of beam search: vocabulary, best continuations, finished hypotheses |
| `engine.py` | the queue of sentences, the slots they are searched in, and one thread per processor |

Why it is worth it: the decoder in tensor operations makes a hundred calls to torch per step, and writes the logits of
the whole vocabulary to memory only to read them again. Gain over full passes, tiny model, beam 5: 36.5 times as fast in
int8, 21.6 in int16 and 13.2 in float32. The tensor decoder reaches 7.3 in int8 and 6.1 in float32
(docs/explanation/internals.md). docs/log.md (2026-11-21) has the gain of each part.

A sentence's results do not depend on the other sentences in search, to the last bit.
"""
