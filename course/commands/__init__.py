"""What `course` can be asked to do, one command a file."""
