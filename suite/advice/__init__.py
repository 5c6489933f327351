"""`suite advise`: which method to use on somebody's data, found within a time."""
