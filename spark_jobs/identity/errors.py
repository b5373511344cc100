"""Exception for credentials that cannot be had. Its text has no secret, and nothing that a program or a service wrote.

Put here: the exception. Not here: the texts; they belong where the facts are.
"""


class CredentialsError(RuntimeError):
    """A password or token that cannot be had, or must not be sent; ``is_passing`` where another try may help."""

    def __init__(self, text: str, is_passing: bool = False) -> None:
        super().__init__(text)
        self.is_passing = is_passing
