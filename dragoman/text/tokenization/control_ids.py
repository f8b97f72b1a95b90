"""Ids of the control tokens, the same in every vocabulary, and which of them a search may write."""

PAD_ID, BOS_ID, EOS_ID, UNK_ID = 0, 1, 2, 3
LARGEST_CONTROL_ID = UNK_ID
NEVER_WRITTEN = (PAD_ID, BOS_ID, UNK_ID)
"""Ids that a search does not write. Forced prefixes may contain them."""
