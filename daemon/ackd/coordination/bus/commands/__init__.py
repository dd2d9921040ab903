"""This capability's commands of the command line."""
