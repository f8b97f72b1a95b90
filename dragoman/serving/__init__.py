"""Serves one or more translators over HTTP, through APIs that existing clients already use."""
