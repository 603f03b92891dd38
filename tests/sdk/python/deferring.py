"""Messages set aside, and fetched by their numbers."""

from azure.servicebus import ServiceBusMessage, ServiceBusReceiveMode
from azure.servicebus.exceptions import MessageNotFoundError
from harness import Space, bodies, check, empty, equal, raises, receive, take


@check("ServiceBusReceiver.defer_message", "ServiceBusReceiver.receive_deferred_messages")
async def defer(space: Space) -> None:
    """A deferred message comes to who asks by its number, and can be settled in every way."""
    queue = await space.queue()
    await space.send(queue, "a", "b", "c")
    receiver = await space.receiver(queue)
    for message in await receive(receiver, 3):
        await receiver.defer_message(message)
    assert await empty(receiver)
    peeked = await receiver.peek_messages(10, sequence_number=1)
    numbers = [message.sequence_number for message in peeked]
    deferred = await receiver.receive_deferred_messages(numbers)
    equal(bodies(deferred), ["a", "b", "c"])
    equal([message.state.name for message in deferred], ["DEFERRED"] * 3)
    first, second, third = deferred
    await receiver.complete_message(first)
    await receiver.renew_message_lock(second)
    await receiver.abandon_message(second)
    await receiver.dead_letter_message(third, reason="late", error_description="by hand")
    [again] = await receiver.receive_deferred_messages(numbers[1])
    await receiver.defer_message(again)
    [again] = await receiver.receive_deferred_messages(numbers[1])
    await receiver.complete_message(again)
    equal(await take(await space.receiver(queue, sub_queue="deadletter")), ["c"])


@check("ServiceBusReceiver.receive_deferred_messages")
async def unknown(space: Space) -> None:
    """MessageNotFoundError for a number nobody deferred, and none of the others is locked."""
    queue = await space.queue()
    await space.send(queue, "a")
    receiver = await (await space.impatient()).get_queue_receiver(queue)
    [message] = await receive(receiver)
    await receiver.defer_message(message)
    number = message.sequence_number
    call = receiver.receive_deferred_messages([number, number + 100])
    await raises(MessageNotFoundError, call)
    [message] = await receiver.receive_deferred_messages([number])
    await receiver.complete_message(message)
    await receiver.close()


@check("ServiceBusReceiver.receive_deferred_messages")
async def and_delete(space: Space) -> None:
    """RECEIVE_AND_DELETE removes a deferred message."""
    queue = await space.queue()
    await space.send(queue, "x")
    receiver = await space.receiver(queue)
    [message] = await receive(receiver)
    await receiver.defer_message(message)
    number = message.sequence_number
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    client = await space.impatient()
    deleting = await client.get_queue_receiver(queue, receive_mode=mode)
    equal(bodies(await deleting.receive_deferred_messages(number)), ["x"])
    await raises(MessageNotFoundError, deleting.receive_deferred_messages(number))
    await deleting.close()


@check("ServiceBusReceiver.defer_message", "ServiceBusReceiver.receive_deferred_messages")
async def in_subscription(space: Space) -> None:
    """A subscription defers for itself; other subscriptions keep their copies."""
    topic = await space.topic("one", "other")
    await (await space.topic_sender(topic)).send_messages(ServiceBusMessage("x"))
    receiver = await space.subscriber(topic, "one")
    [message] = await receive(receiver)
    await receiver.defer_message(message)
    equal(await take(await space.subscriber(topic, "other")), ["x"])
    [message] = await receiver.receive_deferred_messages(message.sequence_number)
    await receiver.complete_message(message)
    equal(await receiver.peek_messages(5, sequence_number=1), [])
