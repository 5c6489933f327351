"""Helpers for all packages of this project: names, errors, devices, random numbers."""
