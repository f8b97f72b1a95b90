"""Beam search and sampling in torch operations, over any model with the three verbs of `StepModel`.

| file | content |
|---|---|
| `beam.py` | beam search |
| `greedy.py` | greedy search on the definition itself |
| `sampling.py` | sampling |
| `step_model.py` | the interface of models: `start`, `step`, `reorder` |
| `continuations.py` | hypotheses and their best next tokens, forced prefixes, forbidden ids, limits of the length |
"""
