"""Locality-sensitive hashing on numpy arrays: the mathematics of the jobs, without any framework."""

__version__ = "0.1.0"
