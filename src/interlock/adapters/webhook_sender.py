"""Sends a letter of a webhook: signed, to an address that was looked at, once.

Rule 1: nothing is followed, no redirect and no proxy of the environment; what the receiver says is not read.
Rule 2: the signature is that of Standard Webhooks; its id is the same on every try.
"""

import asyncio
from datetime import UTC, datetime
from urllib.parse import urlsplit

import httpx2
from standardwebhooks.webhooks import Webhook

from interlock.adapters.addresses import NotAllowed, resolved
from interlock.adapters.webhook_settings import OutgoingHook
from interlock.ports import Clock, Letter


class NotSent(Exception):
    """The receiver did not take a letter; `for_good` says that trying again is useless."""

    def __init__(self, message: str, *, for_good: bool = False) -> None:
        super().__init__(message)
        self.for_good = for_good


class WebhookSender:
    """One webhook's way out."""

    def __init__(self, hook: OutgoingHook, secret: str, clock: Clock) -> None:
        self._hook, self._clock = hook, clock
        self._signing = Webhook(secret)

    async def send(self, letter: Letter) -> None:
        """Returns if the receiver took it; else raises `NotSent`."""
        try:
            async with asyncio.timeout(self._hook.timeout_seconds):
                status = await self._posted(letter)
        except TimeoutError:
            raise NotSent(f"no answer within {self._hook.timeout_seconds:g} s") from None
        except NotAllowed as error:
            raise NotSent(str(error)) from error
        except (httpx2.HTTPError, OSError) as error:
            raise NotSent(f"{type(error).__name__}: {error}") from error
        if status == 410:
            raise NotSent("the receiver wants no more of these (410)", for_good=True)
        if not 200 <= status < 300:
            raise NotSent(f"the receiver answered {status}")

    async def _posted(self, letter: Letter) -> int:
        address = urlsplit(self._hook.url)
        assert address.hostname is not None, "the settings were read"
        port = address.port or (443 if address.scheme == "https" else 80)
        to = await resolved(address.hostname, port, allow_private=self._hook.allow_private)
        literal = f"[{to.address}]" if ":" in to.address else to.address
        path = (address.path or "/") + (f"?{address.query}" if address.query else "")
        url = f"{address.scheme}://{literal}:{to.port}{path}"
        async with httpx2.AsyncClient(trust_env=False, follow_redirects=False, timeout=None) as client:
            request = client.build_request(
                "POST",
                url,
                content=letter.body,
                headers={"host": address.netloc, **self._headers(letter)},
                extensions={"sni_hostname": address.hostname},
            )
            answer = await client.send(request, stream=True)
            await answer.aclose()
            return answer.status_code

    def _headers(self, letter: Letter) -> dict[str, str]:
        now_s = self._clock.now_ms() // 1000
        at = datetime.fromtimestamp(now_s, UTC)
        return {
            "content-type": "application/json",
            "user-agent": "interlock",
            "webhook-id": letter.key,
            "webhook-timestamp": str(now_s),
            "webhook-signature": self._signing.sign(letter.key, at, letter.body.decode()),
        }
