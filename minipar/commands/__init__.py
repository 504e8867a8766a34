"""What `minipar` does when it is called from a terminal: one command a file."""
