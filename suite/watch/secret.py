"""What tells the owner of the pages from other accounts of the machine: a secret in the address that is printed."""

import secrets

from starlette.requests import Request
from starlette.responses import Response

PARAMETER = "token"


class Secret:
    """A random word, new for each server. Who opens the address that has it gets a cookie, which its page sends
    from then on.
    """

    def __init__(self) -> None:
        self._word = secrets.token_urlsafe(32)

    def address(self, plain: str) -> str:
        """An address with the secret in it."""
        return f"{plain}?{PARAMETER}={self._word}"

    def known(self, request: Request) -> bool:
        """Whether who asks has it."""
        told = request.query_params.get(PARAMETER) or request.cookies.get(_cookie(request), "")
        return secrets.compare_digest(told.encode(), self._word.encode())

    def remember(self, request: Request, answer: Response) -> Response:
        """The answer, with the cookie for who has come by the address."""
        if PARAMETER in request.query_params and self.known(request):
            answer.set_cookie(_cookie(request), self._word, httponly=True, samesite="strict")
        return answer


def _cookie(request: Request) -> str:
    """Its name: browsers keep one cookie of a name for all ports of a machine."""
    return f"suite-{request.url.port or 80}"
