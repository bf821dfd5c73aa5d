"""One data card a file: what the data is, where it comes from, and which task it is for."""
