"""Translation: from texts to translations with a trained model.

Start with `translator.py`, the public class. A text becomes segments (`segments.py`), the segments are searched
(`text_search.py`, `searches.py`), and the later stages add what the search does not know: terms and markup
(`preservation`), alignments (`alignment.py`). `verification.py` checks that all ways of searching agree.
"""
