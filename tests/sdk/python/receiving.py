"""Receivers: waiting, prefetching, iterating, peeking, removing at once."""

import asyncio

from azure.servicebus import ServiceBusReceiveMode
from azure.servicebus.exceptions import ServiceBusError
from harness import (
    WAIT,
    Space,
    bodies,
    body,
    check,
    empty,
    equal,
    raises,
    receive,
    take,
    unauthorized,
)


@check("ServiceBusClient.get_queue_receiver", "ServiceBusReceiver.receive_messages")
async def waiting(space: Space) -> None:
    """A receiver gets what is sent while it waits, and nothing when nothing is."""
    queue = await space.queue()
    receiver = await space.receiver(queue)
    equal(await receiver.receive_messages(max_wait_time=1), [])
    waits = asyncio.create_task(receiver.receive_messages(max_wait_time=2 * WAIT))
    await asyncio.sleep(0.5)
    await space.send(queue, "x")
    messages = await waits
    equal(bodies(messages), ["x"])
    await receiver.complete_message(messages[0])
    assert await empty(receiver)


@check("ServiceBusReceiver.receive_messages")
async def and_delete(space: Space) -> None:
    """RECEIVE_AND_DELETE removes at once, and settles nothing."""
    queue = await space.queue()
    await space.send(queue, "a", "b")
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    receiver = await space.receiver(queue, receive_mode=mode)
    messages = await receive(receiver, 2)
    equal(bodies(messages), ["a", "b"])
    await raises(ValueError, receiver.complete_message(messages[0]))
    assert await empty(await space.receiver(queue))


@check("ServiceBusReceiver.receive_messages")
async def prefetch(space: Space) -> None:
    """A receiver that prefetches gets every message, once."""
    queue = await space.queue()
    texts = [f"{n:03}" for n in range(200)]
    await space.send(queue, *texts)
    receiver = await space.receiver(queue, prefetch_count=50)
    seen: list[str] = []
    while len(seen) < 200:
        seen += await take(receiver, min(50, 200 - len(seen)))
    equal(seen, texts)
    assert await empty(receiver)


@check("ServiceBusReceiver.complete_message")
async def iterating(space: Space) -> None:
    """Iteration ends when nothing came for `max_wait_time`."""
    queue = await space.queue()
    texts = [str(n) for n in range(10)]
    await space.send(queue, *texts)
    receiver = await space.receiver(queue, max_wait_time=3)
    seen = []
    async for message in receiver:
        seen.append(body(message))
        await receiver.complete_message(message)
    equal(seen, texts)


@check("ServiceBusReceiver.next", flavours=("sync",))
async def next_message(space: Space) -> None:
    """One message at a time, by the older name of iteration."""
    queue = await space.queue()
    await space.send(queue, "a", "b")
    receiver = await space.receiver(queue, max_wait_time=WAIT)
    for text in ("a", "b"):
        message = await receiver.next()
        equal(body(message), text)
        await receiver.complete_message(message)


@check("ServiceBusReceiver.peek_messages")
async def peek(space: Space) -> None:
    """A peek goes on from where the last one ended, or from a number, and takes nothing."""
    queue = await space.queue()
    texts = [str(n) for n in range(10)]
    await space.send(queue, *texts)
    receiver = await space.receiver(queue)
    [first] = await receiver.peek_messages()
    equal((body(first), first.state.name), ("0", "ACTIVE"))
    rest = await receiver.peek_messages(20)
    equal(bodies(rest), texts[1:])
    equal(await receiver.peek_messages(5), [])
    number = rest[4].sequence_number
    [sixth] = await receiver.peek_messages(1, sequence_number=number)
    equal(sixth.sequence_number, number)
    equal(await take(receiver, 10), texts)


@check("ServiceBusReceiver.receive_messages")
async def competing(space: Space) -> None:
    """Receivers of one queue share its messages, each of which goes to one of them."""
    queue = await space.queue()
    texts = [f"{n:02}" for n in range(60)]
    await space.send(queue, *texts)
    receivers = [await space.receiver(queue) for _ in range(3)]
    shares = await asyncio.gather(*(take(receiver, 20) for receiver in receivers))
    equal(sorted(text for share in shares for text in share), texts)


@check("ServiceBusReceiver.receive_messages", "ServiceBusReceiver.peek_messages")
async def not_found(space: Space) -> None:
    """ServiceBusAuthenticationError of a queue and a subscription that do not exist."""
    client = await space.client()
    for receiver in (
        await client.get_queue_receiver(space.name),
        await client.get_subscription_receiver(space.name, "none"),
    ):
        call = receiver.receive_messages(max_wait_time=2 * WAIT)
        await raises(unauthorized(), call)
        await raises(unauthorized(), receiver.peek_messages())
        await receiver.close()


@check("ServiceBusReceiver.receive_messages", "ServiceBusAdministrationClient.delete_queue")
async def deleted(space: Space) -> None:
    """A receiver whose queue is deleted is told so."""
    queue = await space.queue()
    receiver = await space.receiver(queue)
    equal(await receiver.receive_messages(max_wait_time=1), [])
    await (await space.admin()).delete_queue(queue)
    await raises(ServiceBusError, receiver.receive_messages(max_wait_time=2 * WAIT))


@check("ServiceBusReceiver.close", "ServiceBusReceiver.client_identifier")
async def closed(space: Space) -> None:
    """A receiver has the name it is given, and says so when it is used after its close."""
    queue = await space.queue()
    await space.send(queue, "x")
    receiver = await (await space.client()).get_queue_receiver(queue, client_identifier="me")
    equal(receiver.client_identifier, "me")
    equal(await take(receiver), ["x"])
    await receiver.close()
    await raises(ValueError, receiver.receive_messages(max_wait_time=1))
