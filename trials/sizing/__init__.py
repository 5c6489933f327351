"""What a trial takes of a machine."""
