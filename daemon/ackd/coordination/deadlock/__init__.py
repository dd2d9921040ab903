"""Deadlocks: bus workers that wait for each other in a circle, found and reported."""
