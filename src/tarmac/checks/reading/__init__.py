"""Reading logs of any program for the failures of the catalogue."""
