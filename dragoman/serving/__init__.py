"""One or more translators as a service that existing clients can use at once."""
