"""Translations that keep terms, protected spans, markup and capitals. Works with every search and is free of torch."""
