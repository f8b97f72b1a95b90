"""Beam search and sampling in torch operations, over any model with the three verbs of `StepModel`.

`beam.py` and `sampling.py` are the two searches. The other files are their parts: the model's interface
(`step_model.py`), forced prefixes and forbidden ids (`constraints.py`), the best next tokens (`continuations.py`),
hypotheses being written (`paths.py`), finished ones (`finished.py`), and the choice among samples
(`minimum_bayes_risk.py`).
"""
