"""Locks of messages: renewed by hand, by the SDK, and lost."""

import asyncio
from datetime import timedelta
from typing import Any

from azure.servicebus.exceptions import (
    AutoLockRenewFailed,
    AutoLockRenewTimeout,
    MessageLockLostError,
)
from harness import Space, check, empty, equal, raises, receive, take

LOCK = timedelta(seconds=8)
MOST_OF_IT = 5.0
LONGER = 9.5


@check("ServiceBusReceiver.renew_message_lock")
async def renew(space: Space) -> None:
    """A lock is held for longer than it lasts by renewing it."""
    queue = await space.queue(lock_duration=LOCK)
    await space.send(queue, "x")
    receiver = await space.receiver(queue)
    [message] = await receive(receiver)
    before = message.locked_until_utc
    await asyncio.sleep(MOST_OF_IT)
    until = await receiver.renew_message_lock(message)
    assert before and until > before + timedelta(seconds=MOST_OF_IT - 1), (before, until)
    equal(message.locked_until_utc, until)
    await asyncio.sleep(MOST_OF_IT)
    await receiver.complete_message(message)
    assert await empty(receiver)


@check("ServiceBusReceiver.renew_message_lock", "ServiceBusReceiver.complete_message")
async def lost(space: Space) -> None:
    """MessageLockLostError once a lock has ended; the message comes again, counted."""
    queue = await space.queue(lock_duration=timedelta(seconds=5))
    await space.send(queue, "x")
    receiver = await space.receiver(queue)
    [message] = await receive(receiver)
    await asyncio.sleep(6.5)
    await raises(MessageLockLostError, receiver.renew_message_lock(message))
    await raises(MessageLockLostError, receiver.complete_message(message))
    [again] = await receive(receiver)
    equal((again.sequence_number, again.delivery_count), (message.sequence_number, 1))
    await receiver.complete_message(again)


@check("AutoLockRenewer.register", "AutoLockRenewer.close")
async def renewer(space: Space) -> None:
    """The SDK renews a lock until the message is settled."""
    queue = await space.queue(lock_duration=timedelta(seconds=5))
    await space.send(queue, "x")
    renewer = await space.renewer()
    receiver = await space.receiver(queue)
    [message] = await receive(receiver)
    await renewer.register(receiver, message, max_lock_renewal_duration=60)
    await asyncio.sleep(LONGER)
    equal(message.auto_renew_error, None)
    await receiver.complete_message(message)
    await renewer.close()
    assert await empty(receiver)


@check("AutoLockRenewer.register")
async def renewer_fails(space: Space) -> None:
    """The SDK tells of a lock it can renew no longer, as its queue is gone."""
    queue = await space.queue(lock_duration=timedelta(seconds=5))
    await space.send(queue, "x")
    failed: asyncio.Queue[Exception | None] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def tell(renewable: Any, error: Exception | None) -> None:
        loop.call_soon_threadsafe(failed.put_nowait, error)

    async def tell_async(renewable: Any, error: Exception | None) -> None:
        tell(renewable, error)

    renewer = await space.renewer()
    receiver = await space.receiver(queue)
    [message] = await receive(receiver)
    await renewer.register(
        receiver,
        message,
        on_lock_renew_failure=tell if space.flavour.name == "sync" else tell_async,
    )
    await (await space.admin()).delete_queue(queue)
    async with asyncio.timeout(30):
        await failed.get()
    assert message.auto_renew_error is not None


@check("AutoLockRenewer.register")
async def renewer_ends(space: Space) -> None:
    """The SDK renews for as long as it is told to, says so, and the message comes again."""
    # So long that the SDK does not renew, and wait behind its own receive, before the two seconds
    # are over; and that it looks between their end and the lock's, after which it says nothing.
    queue = await space.queue(lock_duration=timedelta(seconds=15))
    await space.send(queue, "x")
    renewer = await space.renewer(max_lock_renewal_duration=2)
    receiver = await space.receiver(queue)
    [message] = await receive(receiver)
    await renewer.register(receiver, message)
    equal(await take(receiver), ["x"])
    # Which it says depends on whether it looks before the lock has ended, or after.
    kinds = (AutoLockRenewTimeout, AutoLockRenewFailed)
    assert isinstance(message.auto_renew_error, kinds), message.auto_renew_error


@check("AutoLockRenewer.close")
async def renewer_of_receiver(space: Space) -> None:
    """A receiver with a renewer keeps the locks of all it receives."""
    queue = await space.queue(lock_duration=timedelta(seconds=5))
    await space.send(queue, "a", "b")
    # The synchronous SDK takes two renewals of one receiver at once for one connection's: it sends
    # a request before it notes that it waits, and its other thread may have thrown the answer away.
    one = {"max_workers": 1} if space.flavour.name == "sync" else {}
    renewer = await space.renewer(max_lock_renewal_duration=60, **one)
    receiver = await space.receiver(queue, auto_lock_renewer=renewer)
    messages = await receive(receiver, 2)
    await asyncio.sleep(LONGER)
    for message in messages:
        await receiver.complete_message(message)
    await renewer.close()
    assert await empty(receiver)
