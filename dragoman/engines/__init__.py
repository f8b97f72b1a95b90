"""The two engines, which search and run forced passes on ids, and the choice between them (`choice.py`)."""
