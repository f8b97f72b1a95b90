"""The version of the package, for whatever writes it down."""

__version__ = "0.1.0"
