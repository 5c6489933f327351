"""What a check raises."""


class WrongError(AssertionError):
    """What is wrong with code of one's own, in words."""
