"""Leaderboards in words: sentences, tables, and the formats that they are written in."""
