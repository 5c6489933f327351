"""The execution of trials, on a Ray cluster or in this process."""
