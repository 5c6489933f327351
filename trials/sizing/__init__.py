"""What a trial takes of a machine, and which execution is the fastest there."""
