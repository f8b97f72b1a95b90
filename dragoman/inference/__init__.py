"""Translation: from texts to translations with a trained model.

Start with `translator.py`, the public class. A text passes these stages:

1. `segments.py` splits it into segments.
2. `text_search.py` searches the segments with one of the two engines of `engines/`, compiled or tensors.
3. `preservation.py` restores terms, markup, protected spans and capitals.
4. `alignment.py` links the words of source and translation.

`verification.py` checks that all ways of searching agree.
"""
