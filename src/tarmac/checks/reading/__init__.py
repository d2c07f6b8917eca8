"""Reads logs of any program and finds the catalogue's failures in them."""
