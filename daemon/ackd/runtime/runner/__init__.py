"""Carrying out the effects that the engine asks for."""
