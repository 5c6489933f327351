"""The engine: the federation that algorithms see, and local training of many clients at once."""
