"""Boards: recorded results published as bundles of plain files, verified, and shown as a static site."""
