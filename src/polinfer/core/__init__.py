"""Foundations: the protocol of a problem, errors, noise, progress, files."""
