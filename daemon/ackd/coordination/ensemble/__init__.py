"""Ensemble teams: their tasks, reports and ACK files, taken in as native mail."""
