"""What is done with the data of a bench: one file for each kind of task."""
