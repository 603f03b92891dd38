"""Sessions of queues and subscriptions: held, renewed, lost, listed; their state."""

import asyncio
import datetime
from datetime import timedelta

from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusMessage
from azure.servicebus.exceptions import (
    MessageNotFoundError,
    OperationTimeoutError,
    ServiceBusError,
    SessionCannotBeLockedError,
    SessionLockLostError,
)
from harness import OPENED, WAIT, Handle, Space, bodies, check, collect, empty, equal, raises, receive, take


async def queue_with(space: Space, *sessions: str, lock: timedelta = timedelta(minutes=1)) -> str:
    """A queue with messages 1, 2 and 3 in each of these sessions."""
    queue = await space.queue(requires_session=True, lock_duration=lock)
    sender = await space.sender(queue)
    for n in range(1, 4):
        for session in sessions:
            await sender.send_messages(ServiceBusMessage(f"{session}{n}", session_id=session))
    return queue


async def subscription_with(space: Space, *sessions: str) -> str:
    """A topic whose subscription `s` has a message in each of these sessions."""
    topic = await space.topic()
    await (await space.admin()).create_subscription(topic, "s", requires_session=True)
    sender = await space.topic_sender(topic)
    for session in sessions:
        await sender.send_messages(ServiceBusMessage(session, session_id=session))
    return topic


@check(
    "ServiceBusReceiver.session",
    "ServiceBusSession.session_id",
    "ServiceBusSession.locked_until_utc",
)
async def by_id(space: Space) -> None:
    """A session's receiver gets its messages in order, and no others."""
    queue = await queue_with(space, "a", "b")
    receiver = await space.receiver(queue, session_id="b")
    equal(receiver.session.session_id, "b")
    left = receiver.session.locked_until_utc - datetime.datetime.now(datetime.timezone.utc)
    assert timedelta(seconds=30) < left <= timedelta(seconds=61), left
    messages = await receive(receiver, 3)
    equal(bodies(messages), ["b1", "b2", "b3"])
    equal({message.session_id for message in messages}, {"b"})
    for message in messages:
        await receiver.complete_message(message)
    assert await empty(receiver)


@check("ServiceBusClient.get_queue_receiver")
async def next_available(space: Space) -> None:
    """Each receiver of the next session gets another one, and the next waits for one to come."""
    queue = await queue_with(space, "a", "b")
    one = await space.receiver(queue, session_id=NEXT_AVAILABLE_SESSION)
    two = await space.receiver(queue, session_id=NEXT_AVAILABLE_SESSION)
    equal(sorted([one.session.session_id, two.session.session_id]), ["a", "b"])
    client = await space.client()
    three = await client.get_queue_receiver(
        queue, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=20
    )
    waits = asyncio.create_task(space.open(three))
    await asyncio.sleep(1)
    assert not waits.done()
    await space.send(queue, "c1", session_id="c")
    three = await waits
    equal((three.session.session_id, await take(three)), ("c", ["c1"]))


@check("ServiceBusClient.get_queue_receiver")
async def none_available(space: Space) -> None:
    """OperationTimeoutError when no session comes in time."""
    queue = await queue_with(space)
    client = await space.impatient()
    receiver = await client.get_queue_receiver(
        queue, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=2
    )
    await raises(OperationTimeoutError, receiver.receive_messages())
    await receiver.close()


@check("ServiceBusClient.get_queue_receiver")
async def held(space: Space) -> None:
    """SessionCannotBeLockedError while another holds the session; its close lets go at once."""
    queue = await queue_with(space, "a")
    holder = await space.receiver(queue, session_id="a")
    client = await space.impatient()
    other = await client.get_queue_receiver(queue, session_id="a")
    await raises(SessionCannotBeLockedError, other.receive_messages(max_wait_time=OPENED))
    await receive(holder, 3)
    await holder.close()
    other = await space.open(await client.get_queue_receiver(queue, session_id="a"))
    messages = await receive(other, 3)
    equal([message.delivery_count for message in messages], [0, 0, 0], "deliveries that count")
    equal(bodies(messages), ["a1", "a2", "a3"])


@check("ServiceBusSession.get_state", "ServiceBusSession.set_state")
async def state(space: Space) -> None:
    """A session's state is what was set last, whoever holds it."""
    queue = await queue_with(space, "a")
    holder = await space.receiver(queue, session_id="a")
    equal(await holder.session.get_state(), None)
    await holder.session.set_state("half")
    equal(bytes(await holder.session.get_state()), b"half")
    await holder.close()
    other = await space.receiver(queue, session_id="a")
    equal(bytes(await other.session.get_state()), b"half")
    await other.session.set_state(b"\x00\xff" * 1000)
    equal(bytes(await other.session.get_state()), b"\x00\xff" * 1000)
    await other.session.set_state(None)
    equal(await other.session.get_state(), None)


@check("ServiceBusSession.renew_lock")
async def renew(space: Space) -> None:
    """A session is held for longer than its lock lasts by renewing it."""
    queue = await queue_with(space, "a", lock=timedelta(seconds=8))
    holder = await space.receiver(queue, session_id="a")
    before = holder.session.locked_until_utc
    [message] = await receive(holder)
    await asyncio.sleep(5)
    until = await holder.session.renew_lock()
    assert until > before + timedelta(seconds=4), (before, until)
    equal(holder.session.locked_until_utc, until)
    await asyncio.sleep(5)
    await holder.complete_message(message)
    equal(await take(holder, 2), ["a2", "a3"])


@check("ServiceBusReceiver.complete_message", "ServiceBusSession.renew_lock")
async def lost(space: Space) -> None:
    """SessionLockLostError once the lock has ended; the next holder sees a counted delivery."""
    queue = await queue_with(space, "a", lock=timedelta(seconds=5))
    holder = await space.receiver(queue, session_id="a")
    [message] = await receive(holder)
    await asyncio.sleep(6.5)
    await raises(SessionLockLostError, holder.complete_message(message))
    await raises(SessionLockLostError, holder.session.renew_lock())
    other = await space.receiver(queue, session_id="a")
    messages = await receive(other, 3)
    equal(bodies(messages), ["a1", "a2", "a3"])
    equal(messages[0].delivery_count, 1)


@check("AutoLockRenewer.register")
async def auto_renew(space: Space) -> None:
    """The SDK keeps a session as long as it is told to."""
    queue = await queue_with(space, "a", lock=timedelta(seconds=5))
    renewer = await space.renewer()
    holder = await space.receiver(queue, session_id="a")
    await renewer.register(holder, holder.session, max_lock_renewal_duration=60)
    messages = await receive(holder, 3)
    await asyncio.sleep(9)
    equal(holder.session.auto_renew_error, None)
    for message in messages:
        await holder.complete_message(message)
    await renewer.close()


@check("ServiceBusReceiver.abandon_message")
async def abandon(space: Space) -> None:
    """An abandoned message is the session's next one."""
    queue = await queue_with(space, "a")
    holder = await space.receiver(queue, session_id="a")
    [message] = await receive(holder)
    await holder.abandon_message(message)
    messages = await receive(holder, 3)
    equal(bodies(messages), ["a1", "a2", "a3"])
    equal(messages[0].delivery_count, 1)


@check("ServiceBusReceiver.defer_message", "ServiceBusReceiver.dead_letter_message")
async def settle(space: Space) -> None:
    """A session's holder defers, fetches and dead-letters; its dead letters need no session."""
    queue = await queue_with(space, "a")
    holder = await space.receiver(queue, session_id="a")
    first, second, third = await receive(holder, 3)
    await holder.defer_message(first)
    await holder.dead_letter_message(second, reason="why")
    await holder.complete_message(third)
    [deferred] = await holder.receive_deferred_messages(first.sequence_number)
    equal((bodies([deferred]), deferred.session_id), (["a1"], "a"))
    await holder.complete_message(deferred)
    dead = await space.receiver(queue, sub_queue="deadletter")
    [message] = await receive(dead)
    equal((bodies([message]), message.session_id), (["a2"], "a"))
    await dead.complete_message(message)


@check("ServiceBusReceiver.receive_deferred_messages")
async def deferred_of_others(space: Space) -> None:
    """The holder of one session does not get what another deferred."""
    queue = await queue_with(space, "a", "b")
    holder = await space.receiver(queue, session_id="a")
    [message] = await receive(holder)
    await holder.defer_message(message)
    other = await (await space.impatient()).get_queue_receiver(queue, session_id="b")
    other = await space.open(other)
    call = other.receive_deferred_messages(message.sequence_number)
    error = await raises(ServiceBusError, call)
    assert isinstance(error, (SessionLockLostError, MessageNotFoundError)), error


@check("ServiceBusReceiver.peek_messages")
async def peek(space: Space) -> None:
    """The holder peeks its own session only."""
    queue = await queue_with(space, "a", "b")
    holder = await space.receiver(queue, session_id="b")
    equal(bodies(await holder.peek_messages(10)), ["b1", "b2", "b3"])


@check("ServiceBusSender.send_messages", "ServiceBusReceiver.receive_messages")
async def required(space: Space) -> None:
    """Where sessions are required, messages and receivers without one are refused."""
    queue = await queue_with(space)
    client = await space.impatient()
    sender = await client.get_queue_sender(queue)
    await raises(ServiceBusError, sender.send_messages(ServiceBusMessage("x")))
    await sender.close()
    receiver = await client.get_queue_receiver(queue)
    error = await raises(ServiceBusError, receiver.receive_messages(max_wait_time=2 * WAIT))
    assert "session" in str(error).lower(), error
    await receiver.close()


@check("ServiceBusReceiver.receive_messages")
async def not_required(space: Space) -> None:
    """Where sessions are not, receivers of one are refused."""
    queue = await space.queue()
    client = await space.impatient()
    receiver = await client.get_queue_receiver(queue, session_id="a")
    await raises(ServiceBusError, receiver.receive_messages(max_wait_time=2 * WAIT))
    await receiver.close()


@check("ServiceBusSender.schedule_messages")
async def schedule(space: Space) -> None:
    """A scheduled message joins its session when it is due."""
    queue = await queue_with(space)
    soon = datetime.datetime.now(datetime.timezone.utc) + timedelta(seconds=5)
    sender = await space.sender(queue)
    await sender.schedule_messages(ServiceBusMessage("x", session_id="a"), soon)
    receiver = await space.receiver(
        queue, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=20
    )
    assert datetime.datetime.now(datetime.timezone.utc) >= soon
    equal(await take(receiver), ["x"])


async def listed(paged: Handle) -> list[str]:
    return sorted(await collect(paged))


@check("ServiceBusClient.list_queue_sessions")
async def list_of_queue(space: Space) -> None:
    """Sessions with messages or state are listed; or those whose state changed since."""
    queue = await queue_with(space, "a", "b", "c")
    client = await space.client()
    start = datetime.datetime.now(datetime.timezone.utc) - timedelta(minutes=1)
    equal(await listed(await client.list_queue_sessions(queue)), ["a", "b", "c"])
    changed = await client.list_queue_sessions(queue, state_updated_after=start)
    equal(await listed(changed), [])
    holder = await space.receiver(queue, session_id="b")
    await holder.session.set_state("x")
    await take(holder, 3)
    await holder.close()
    changed = await client.list_queue_sessions(queue, state_updated_after=start)
    equal(await listed(changed), ["b"])
    equal(await listed(await client.list_queue_sessions(queue)), ["a", "b", "c"])


@check("ServiceBusClient.list_queue_sessions")
async def list_of_many(space: Space) -> None:
    """A list of sessions longer than a page is whole."""
    queue = await space.queue(requires_session=True)
    sender = await space.sender(queue)
    names = [f"s{n:03}" for n in range(250)]
    await sender.send_messages([ServiceBusMessage("x", session_id=name) for name in names])
    client = await space.client()
    equal(await listed(await client.list_queue_sessions(queue)), names)


@check("ServiceBusClient.list_subscription_sessions")
async def list_of_subscription(space: Space) -> None:
    """A subscription's sessions are listed."""
    topic = await subscription_with(space, "a", "b")
    client = await space.client()
    equal(await listed(await client.list_subscription_sessions(topic, "s")), ["a", "b"])


@check("ServiceBusClient.get_subscription_receiver")
async def of_subscription(space: Space) -> None:
    """A subscription's sessions are held by id, or as they come, and have state."""
    topic = await subscription_with(space, "a", "b")
    holder = await space.subscriber(topic, "s", session_id="b")
    equal(await take(holder), ["b"])
    await holder.session.set_state("done")
    equal(bytes(await holder.session.get_state()), b"done")
    other = await space.subscriber(topic, "s", session_id=NEXT_AVAILABLE_SESSION)
    equal((other.session.session_id, await take(other)), ("a", ["a"]))
