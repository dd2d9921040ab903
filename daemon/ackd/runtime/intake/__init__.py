"""Turns files in the queues into events for the engine."""
