"""What one program of the SDK meets while the node it is connected to ends, dies or stands still.

Started by `tests/sdk/ends.py`, which tells it when that begins, by a line. Every kind of call is made again and
again meanwhile, with the SDK's own retries, on connections through an address that leads to that node while it
serves, and to another one then. What is told:

calls       by kind: how many were made
lost        by kind: answered that the lock, or the session, is gone, or the link a message came over, before it
            was known what became of its settlement: the message comes again if it was not settled
failed      by kind and error: raised for another reason
session_ms  after how long a session was accepted at another node whose holder is connected to this one
message_ms  after how long a message came there that a client of this node holds
deliveries  how many of its deliveries had failed then
settled     whether that client could still settle it at last
dead        dead-lettered messages, of clients none of which failed
"""

import argparse
import asyncio
import collections
import contextlib
import json
import logging
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import (
    MessageLockLostError,
    ServiceBusError,
    SessionCannotBeLockedError,
    SessionLockLostError,
)
from harness import FLAVOURS, Cluster, Handle, Space

LOCK = timedelta(seconds=60)
DELIVERIES_MAX = 2
PAUSE = 0.05  # Seconds between two calls of a kind.
WAIT = 5.0  # Seconds one call for messages may take: the SDK tries again only if its pause fits into that.
LOOK = 0.05  # Seconds between two looks whether something is free.
QUEUES = ("work", "renewed", "held", "later")
SESSIONS = "sessions"


class Trial:
    """What one program does, and what comes of it."""

    def __init__(self, space: Space, prefix: str, amqp: str, elsewhere: str) -> None:
        self._space, self._prefix = space, prefix
        self._amqp, self._elsewhere = amqp, elsewhere
        self._calls: collections.Counter[str] = collections.Counter()
        self._lost: collections.Counter[str] = collections.Counter()
        self._failed: dict[str, collections.Counter[str]] = collections.defaultdict(
            collections.Counter
        )
        self._found: dict[str, Any] = {"session_ms": None, "message_ms": None, "deliveries": None}
        self.began, self._ending = asyncio.Event(), asyncio.Event()
        self._began_at = 0.0

    def begin(self) -> None:
        self._began_at = time.monotonic()
        self.began.set()

    def name(self, queue: str) -> str:
        return f"{self._prefix}-{queue}"

    async def _client(self, address: str, **options: Any) -> Handle:
        kind = self._space.flavour.package.ServiceBusClient
        text = Cluster(address, "").connection_string(address)
        return await self._space.open(kind.from_connection_string(text, **options))

    async def _sender(self, queue: str) -> Handle:
        client = await self._client(self._amqp)
        return await self._space.open(await client.get_queue_sender(self.name(queue)))

    async def _receiver(self, queue: str, address: str = "", **options: Any) -> Handle:
        client = await self._client(address or self._amqp)
        receiver = await client.get_queue_receiver(self.name(queue), **options)
        return await self._space.open(receiver)

    async def _do(self, kind: str, call: Awaitable[Any]) -> tuple[bool, Any]:
        """Whether it was done, and what came of it."""
        self._calls[kind] += 1
        try:
            return True, await call
        except (MessageLockLostError, SessionLockLostError):
            self._lost[kind] += 1
        except Exception as error:
            # A session goes with its connection, and the SDK says so by either error.
            if kind.startswith("session") and getattr(error, "_retryable", False):
                self._lost[kind] += 1
            else:
                text = f"{type(error).__name__} {error}".splitlines()[0][:100]
                self._failed[kind][text] += 1
        return False, None

    async def _repeat(self, turn: Callable[[], Awaitable[None]]) -> None:
        while not self._ending.is_set():
            await turn()
            await asyncio.sleep(PAUSE)

    async def _send(self) -> None:
        sender = await self._sender("work")
        await self._repeat(lambda: self._do("send", sender.send_messages(ServiceBusMessage("m"))))

    async def _receive(self) -> None:
        receiver = await self._receiver("work")

        async def turn() -> None:
            call = receiver.receive_messages(max_message_count=10, max_wait_time=WAIT)
            _, messages = await self._do("receive", call)
            for message in messages or ():
                await self._do("complete", receiver.complete_message(message))

        await self._repeat(turn)

    async def _renew(self) -> None:
        receiver, held = await self._receiver("renewed"), []

        async def turn() -> None:
            if not held:
                _, messages = await self._do(
                    "receive", receiver.receive_messages(max_wait_time=WAIT)
                )
                held.extend(messages or ())
                return
            is_renewed, _ = await self._do("renew", receiver.renew_message_lock(held[0]))
            if not is_renewed:
                held.clear()

        await self._repeat(turn)

    async def _schedule(self) -> None:
        sender = await self._sender("later")

        async def turn() -> None:
            at = datetime.now(UTC) + timedelta(hours=1)
            call = sender.schedule_messages(ServiceBusMessage("m"), at)
            is_scheduled, numbers = await self._do("schedule", call)
            if is_scheduled:
                await self._do("cancel", sender.cancel_scheduled_messages(numbers))

        await self._repeat(turn)

    async def _peek(self) -> None:
        receiver = await self._receiver("later")
        await self._repeat(lambda: self._do("peek", receiver.peek_messages()))

    async def _session(self) -> None:
        """Its state, by one holder after the other."""
        client = await self._client(self._amqp)

        async def turn() -> None:
            receiver = await client.get_queue_receiver(self.name(SESSIONS), session_id="own")
            async with contextlib.AsyncExitStack() as stack:
                opened = self._do("session accept", stack.enter_async_context(receiver))
                is_held, _ = await opened
                while is_held and not self._ending.is_set():
                    session = receiver.session
                    is_held, _ = await self._do("session state", session.set_state("s"))
                    if is_held:
                        is_held, _ = await self._do("session renew", session.renew_lock())
                    await asyncio.sleep(PAUSE)

        await self._repeat(turn)

    async def _hold(self) -> None:
        """One message and one session, until the end."""
        receiver = await self._receiver("held")
        messages = await receiver.receive_messages(max_wait_time=30)
        session = await self._receiver(SESSIONS, session_id="held")
        self._found["held"] = len(messages)
        await self._ending.wait()
        is_settled, _ = await self._do("settle", receiver.complete_message(messages[0]))
        self._found["settled"] = is_settled
        await self._do("session close", session.close())

    async def _look_for_session(self) -> None:
        client = await self._client(self._elsewhere, retry_total=0)
        await self.began.wait()
        while not self._ending.is_set():
            receiver = await client.get_queue_receiver(self.name(SESSIONS), session_id="held")
            with contextlib.suppress(SessionCannotBeLockedError, ServiceBusError):
                async with receiver:
                    # At the end its holder lets go of it.
                    if not self._ending.is_set():
                        self._found["session_ms"] = self._since()
                    return
            await asyncio.sleep(LOOK)

    async def _look_for_message(self) -> None:
        receiver = await self._receiver("held", self._elsewhere)
        await self.began.wait()
        while not self._ending.is_set():
            for message in await receiver.receive_messages(max_wait_time=WAIT):
                self._found |= {"message_ms": self._since(), "deliveries": message.delivery_count}
                await receiver.complete_message(message)
                return

    def _since(self) -> int:
        return round(1000 * (time.monotonic() - self._began_at))

    async def run(self, started: Path) -> None:
        for queue in ("renewed", "held"):
            await (await self._sender(queue)).send_messages(ServiceBusMessage("m"))
        own = (self._send, self._receive, self._renew, self._schedule, self._peek, self._session)
        tasks = [asyncio.create_task(work()) for work in (*own, self._hold)]
        kinds = {"send", "complete", "renew", "cancel", "peek", "session renew"}
        while not (kinds <= self._calls.keys() and "held" in self._found):
            await asyncio.sleep(LOOK)
            for task in (task for task in tasks if task.done()):
                task.result()
        tasks += [asyncio.create_task(look()) for look in (self._look_for_session, self._look_for_message)]
        started.touch()
        await asyncio.to_thread(sys.stdin.readline)
        self.begin()
        await asyncio.to_thread(sys.stdin.read)
        self._ending.set()
        for task in tasks:
            await task

    async def account(self, admin: Handle) -> dict[str, Any]:
        dead = 0
        for queue in (*QUEUES, SESSIONS):
            properties = await admin.get_queue_runtime_properties(self.name(queue))
            dead += properties.dead_letter_message_count
        return {
            **self._found, "dead": dead, "calls": self._calls, "lost": self._lost,
            "failed": self._failed,
        }  # fmt: skip


async def run(args: argparse.Namespace) -> None:
    async with Space(FLAVOURS[args.flavour], Cluster("", args.http), "ends") as space:
        admin = await space.admin()
        trial = Trial(space, args.queues, args.amqp, args.elsewhere)
        for queue in (*QUEUES, SESSIONS):
            await admin.create_queue(
                trial.name(queue), lock_duration=LOCK, max_delivery_count=DELIVERIES_MAX,
                requires_session=queue == SESSIONS,
            )  # fmt: skip
        await trial.run(args.json.with_suffix(".started"))
        args.json.write_text(json.dumps(await trial.account(admin)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--flavour", choices=sorted(FLAVOURS), default="async")
    parser.add_argument("--amqp", required=True, metavar="HOST:PORT", help="leads to the node")
    parser.add_argument("--elsewhere", required=True, metavar="HOST:PORT", help="another node")
    parser.add_argument("--http", required=True, metavar="HOST:PORT", help="another node")
    parser.add_argument("--queues", required=True, help="what their names begin with")
    parser.add_argument("--json", type=Path, required=True)
    logging.disable(logging.CRITICAL)
    asyncio.run(run(parser.parse_args()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
