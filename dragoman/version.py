"""The version of the package and where it is published. setup.py and the messages read them here."""

__version__ = "0.2.0"

REPOSITORY = ""
"""The address of the repository, such as "https://github.com/OWNER/dragoman". Empty until the first release on PyPI.

Set it once, in the commit of that release. It fills the links and authors of the package, and messages then advise to
install from PyPI. Until then anyone could register the name there, so messages name the checkout.
"""
