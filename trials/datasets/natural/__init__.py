"""Federations as they are: data sets in which people, hospitals or speakers own the samples."""
