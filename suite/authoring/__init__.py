"""An algorithm of one's own: a file to start from, and its test."""
