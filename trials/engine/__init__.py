"""The engine: the services that algorithms call in a round, and local training of many clients at once."""
