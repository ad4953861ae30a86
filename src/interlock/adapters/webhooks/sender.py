"""Sends a webhook once: signed, to a checked address.

Rule 1: redirects and proxies of the environment are not used; the body of the answer is not read.
Rule 2: the signature is that of Standard Webhooks; its id is the same on every try.
"""

import asyncio
from datetime import UTC, datetime
from urllib.parse import urlsplit

import httpx2
from standardwebhooks.webhooks import Webhook

from interlock.adapters.config.webhook_settings import OutgoingHook
from interlock.adapters.webhooks.public_addresses import AddressNotAllowed, resolve_address
from interlock.ports import Clock, WebhookDelivery


class WebhookNotSent(Exception):
    """The receiver did not accept a webhook; `for_good` tells that a retry is useless."""

    def __init__(self, message: str, *, for_good: bool = False) -> None:
        super().__init__(message)
        self.for_good = for_good


class WebhookSender:
    """Sends the deliveries of one outgoing webhook."""

    def __init__(self, hook: OutgoingHook, secret: str, clock: Clock) -> None:
        self._hook, self._clock = hook, clock
        self._signing = Webhook(secret)

    async def send(self, letter: WebhookDelivery) -> None:
        """Returns if the receiver accepted it; else raises `NotSent`."""
        try:
            async with asyncio.timeout(self._hook.timeout_seconds):
                status = await self._post(letter)
        except TimeoutError:
            raise WebhookNotSent(f"no answer within {self._hook.timeout_seconds:g} s") from None
        except AddressNotAllowed as error:
            raise WebhookNotSent(str(error)) from error
        except (httpx2.HTTPError, OSError) as error:
            raise WebhookNotSent(f"{type(error).__name__}: {error}") from error
        if status == 410:
            raise WebhookNotSent("the receiver no longer accepts these (410)", for_good=True)
        if not 200 <= status < 300:
            raise WebhookNotSent(f"the receiver answered {status}")

    async def _post(self, letter: WebhookDelivery) -> int:
        address = urlsplit(self._hook.url)
        assert address.hostname is not None, "the settings were read"
        port = address.port or (443 if address.scheme == "https" else 80)
        to = await resolve_address(address.hostname, port, allow_private=self._hook.allow_private)
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

    def _headers(self, letter: WebhookDelivery) -> dict[str, str]:
        now_s = self._clock.now_ms() // 1000
        at = datetime.fromtimestamp(now_s, UTC)
        return {
            "content-type": "application/json",
            "user-agent": "interlock",
            "webhook-id": letter.key,
            "webhook-timestamp": str(now_s),
            "webhook-signature": self._signing.sign(letter.key, at, letter.body.decode()),
        }
