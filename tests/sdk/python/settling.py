"""The four ways to settle a message, and where it is then."""

from azure.servicebus import ServiceBusSubQueue
from azure.servicebus.exceptions import MessageAlreadySettled
from harness import Space, check, empty, equal, raises, receive, take


@check("ServiceBusReceiver.complete_message")
async def complete(space: Space) -> None:
    """A completed message is gone; completing it twice is refused by the SDK."""
    queue = await space.queue()
    await space.send(queue, "x")
    receiver = await space.receiver(queue)
    [message] = await receive(receiver)
    await receiver.complete_message(message)
    await raises(MessageAlreadySettled, receiver.complete_message(message))
    assert await empty(receiver)


@check("ServiceBusReceiver.abandon_message")
async def abandon(space: Space) -> None:
    """An abandoned message comes again, and is dead-lettered when it came too often."""
    queue = await space.queue(max_delivery_count=2)
    await space.send(queue, "x")
    receiver = await space.receiver(queue)
    for count in range(2):
        [message] = await receive(receiver)
        equal(message.delivery_count, count)
        await receiver.abandon_message(message)
    dead = await space.receiver(queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER)
    [message] = await receive(dead)
    equal(message.dead_letter_reason, "MaxDeliveryCountExceeded")
    await dead.complete_message(message)


@check("ServiceBusReceiver.dead_letter_message")
async def dead_letter(space: Space) -> None:
    """A dead-lettered message is in the dead-letter queue, with what was said about it."""
    queue = await space.queue()
    await space.send(queue, "x")
    receiver = await space.receiver(queue)
    [message] = await receive(receiver)
    await receiver.dead_letter_message(message, reason="why", error_description="because")
    assert await empty(receiver)
    dead = await space.receiver(queue, sub_queue="deadletter")
    [peeked] = await dead.peek_messages()
    equal(peeked.dead_letter_reason, "why")
    [message] = await receive(dead)
    said = (message.dead_letter_reason, message.dead_letter_error_description)
    equal(said, ("why", "because"))
    await dead.renew_message_lock(message)
    await dead.complete_message(message)


@check("ServiceBusReceiver.dead_letter_message")
async def dead_letter_without_reason(space: Space) -> None:
    """No reason need be given."""
    queue = await space.queue()
    await space.send(queue, "x")
    receiver = await space.receiver(queue)
    [message] = await receive(receiver)
    await receiver.dead_letter_message(message)
    equal(await take(await space.receiver(queue, sub_queue="deadletter")), ["x"])


@check("ServiceBusReceiver.complete_message")
async def elsewhere(space: Space) -> None:
    """A lock outlives its receiver, and another receiver can settle under it."""
    queue = await space.queue()
    await space.send(queue, "x")
    first = await space.receiver(queue)
    [message] = await receive(first)
    await first.close()
    second = await space.receiver(queue)
    assert await empty(second)
    await second.complete_message(message)
    assert await empty(second)


@check("ServiceBusReceiver.receive_messages")
async def not_forwarded(space: Space) -> None:
    """What cannot be forwarded is in the dead-letter queue of its source, not that of transfers."""
    admin = await space.admin()
    target, source = f"{space.name}-target", f"{space.name}-source"
    await admin.create_queue(target, requires_session=True)
    await admin.create_queue(source, forward_to=target)
    await space.send(source, "without a session")
    dead = await space.receiver(source, sub_queue=ServiceBusSubQueue.DEAD_LETTER)
    equal(await take(dead), ["without a session"])
    # Only what is sent via an entity gets there, which this SDK has no call for.
    transfers = await space.receiver(source, sub_queue=ServiceBusSubQueue.TRANSFER_DEAD_LETTER)
    assert await empty(transfers)
