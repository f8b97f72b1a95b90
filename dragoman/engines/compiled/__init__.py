"""Beam search of one model in machine code, for CPUs. Free of torch.

A decoding step of all sentences is one call, from token ids to token ids. `engines/choice.py` chooses this package for
beam search of one model on a CPU in float32, int16 or int8. It needs a processor with FMA. Everything else runs in
`engines/search` with `engines/tensors`.

`layers.py`, `beams.py` and `targets.py` are compiled into the libraries of the package (`kernels/library.py`). The
other files call the compiled functions, and import neither numba nor these three.

| file | content |
|---|---|
| `layout.py` | the arrays that the other files work on, with their shapes |
| `weights.py` | a model's weights, packed into panels for the matrix products, and positional encodings |
| `layers.py` | the Transformer's layers on rows: products, norms, attention, feed-forward |
| `beams.py` | one step of beam search: vocabulary, best continuations, finished hypotheses |
| `engine.py` | memory, the queue of sentences and the slots they are searched in, and passes over given translations |
| `targets.py` | whole targets run through the decoder at once |
| `build.py` | the functions that Python calls, compiled into an object file |

Why it is worth it: the tensor decoder makes a hundred calls to torch per step. It writes the logits of the whole
vocabulary to memory only to read them again. Gains over full passes, tiny model, beam 5 (docs/explanation/internals.md;
docs/log/2026.md, 2026-11-21, has the gain of each part):

| | float32 | int16 | int8 |
|---|---:|---:|---:|
| compiled | 13.2 | 21.6 | 36.5 |
| tensors | 6.1 | | 7.3 |

A sentence's results do not depend on the other sentences in search, to the last bit.
"""
