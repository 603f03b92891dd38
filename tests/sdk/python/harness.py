"""What the checks share: one face for the two Python SDKs, entities of a check's own, the runner."""

import asyncio
import contextlib
import dataclasses
import inspect
import os
import time
import traceback
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

import azure.servicebus.aio
from azure.core.async_paging import AsyncItemPaged
from azure.core.paging import ItemPaged
from azure.core.pipeline.transport import AioHttpTransport, RequestsTransport
from azure.servicebus import (
    ServiceBusMessage,
    ServiceBusMessageBatch,
    ServiceBusReceivedMessage,
    TransportType,
)
from azure.servicebus.aio.management import ServiceBusAdministrationClient as AsyncAdministration
from azure.servicebus.exceptions import (
    ServiceBusAuthenticationError,
    ServiceBusConnectionError,
    ServiceBusError,
)
from azure.servicebus.management import ServiceBusAdministrationClient

WAIT = 10.0  # Seconds in which a message that is there arrives where the link is open, on a busy machine.
# Seconds in which it arrives where the SDK opens the link, and maybe its connection, on the way. The SDK
# gives up where that takes longer than a call shall wait, and all suites start at once.
OPENED = 60.0
QUIET = 2.0  # Seconds without a message after which there is none.
CHECK_MAX = 120.0  # Seconds a check may take.


class PlainRequests(RequestsTransport):
    """HTTP without TLS, which the synchronous administration client offers no option for."""

    def send(self, request: Any, **options: Any) -> Any:
        request.url = request.url.replace("https://", "http://", 1)
        return super().send(request, **options)


class PlainAiohttp(AioHttpTransport):
    """HTTP without TLS, which the asynchronous administration client offers no option for."""

    async def send(self, request: Any, **options: Any) -> Any:
        request.url = request.url.replace("https://", "http://", 1)
        return await super().send(request, **options)


@dataclasses.dataclass(frozen=True)
class Flavour:
    """One of the two SDKs in the package."""

    name: str
    package: ModuleType
    administration: type
    transport: type

    def classes(self) -> tuple[type, ...]:
        """Those whose public members have to be checked."""
        return (
            self.package.ServiceBusClient,
            self.package.ServiceBusSender,
            ServiceBusMessageBatch,
            self.package.ServiceBusReceiver,
            self.package.ServiceBusSession,
            self.package.AutoLockRenewer,
            self.administration,
        )

    def inventory(self) -> list[str]:
        """Every public method and property, as `Class.name`."""
        return [
            f"{kind.__name__}.{name}"
            for kind in self.classes()
            for name in dir(kind)
            if not name.startswith("_")
        ]


FLAVOURS = {
    flavour.name: flavour
    for flavour in (
        Flavour("sync", azure.servicebus, ServiceBusAdministrationClient, PlainRequests),
        Flavour("async", azure.servicebus.aio, AsyncAdministration, PlainAiohttp),
    )
}


class Handle:
    """An object of an SDK as checks see it. Every method is awaited: those of the synchronous SDK run
    in a thread, so that checks run beside each other. Whatever is used is noted by its name."""

    def __init__(self, thing: Any, used: set[str], wrapped: tuple[type, ...]) -> None:
        self._thing, self._used, self._wrapped = thing, used, wrapped

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._thing, name)
        self._used.add(f"{type(self._thing).__name__}.{name}")
        if not callable(value):
            return self._wrap(value)

        async def call(*args: Any, **options: Any) -> Any:
            args = tuple(map(bare, args))
            options = {name: bare(option) for name, option in options.items()}
            return self._wrap(await self._do(value, *args, **options))

        return call

    async def _do(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        if ".aio." not in type(self._thing).__module__:
            return await asyncio.to_thread(function, *args, **options)
        result = function(*args, **options)
        return await result if inspect.isawaitable(result) else result

    def _wrap(self, value: Any) -> Any:
        if isinstance(value, self._wrapped):
            return Handle(value, self._used, self._wrapped)
        return value

    async def __aenter__(self) -> "Handle":
        kind = type(self._thing)
        await self._do(getattr(kind, "__aenter__", None) or kind.__enter__, self._thing)
        return self

    async def __aexit__(self, *why: Any) -> None:
        kind = type(self._thing)
        await self._do(getattr(kind, "__aexit__", None) or kind.__exit__, self._thing, *why)

    async def __aiter__(self) -> AsyncIterator[Any]:
        if hasattr(self._thing, "__aiter__"):
            async for item in self._thing:
                yield item
            return
        items, end = iter(self._thing), object()
        while (item := await asyncio.to_thread(next, items, end)) is not end:
            yield item


def bare(thing: Any) -> Any:
    """As the SDK knows it."""
    return thing._thing if isinstance(thing, Handle) else thing


@dataclasses.dataclass(frozen=True)
class Cluster:
    """Where the cluster under test is. Hosts are `localhost`: the SDKs go without TLS to no other."""

    amqp: str
    http: str

    def connection_string(self, address: str) -> str:
        """Of an emulator, or as Azure hands them out for what goes over TLS."""
        text = (
            f"Endpoint=sb://{address};SharedAccessKeyName=RootManageSharedAccessKey;"
            "SharedAccessKey=SAS_KEY_VALUE;"
        )
        return text if is_secure() else f"{text}UseDevelopmentEmulator=true;"

    def client_options(self) -> dict[str, Any]:
        """Of a client that speaks AMQP as the driver has chosen. The SDK's asynchronous half takes a port
        with TLS from a custom endpoint only."""
        if not is_secure():
            return {}
        if os.environ["MAYFLY_TRANSPORT"] == "wss":
            way, address = TransportType.AmqpOverWebsocket, self.http
        else:
            way, address = TransportType.Amqp, os.environ["MAYFLY_AMQPS"]
        return {
            "transport_type": way,
            "custom_endpoint_address": f"sb://{address}",
            "connection_verify": os.environ["MAYFLY_AUTHORITY"],
        }


def is_secure() -> bool:
    """Whether all goes over TLS, to what MAYFLY_AUTHORITY vouches for."""
    return os.environ.get("MAYFLY_TRANSPORT", "plain") != "plain"


def unauthorized() -> type[ServiceBusError]:
    """What the SDK makes of a token that is refused: at a custom endpoint it takes that for the endpoint's
    fault."""
    return ServiceBusConnectionError if is_secure() else ServiceBusAuthenticationError


class Space:
    """What one check works with: clients that are closed after it, entities nobody else uses."""

    def __init__(self, flavour: Flavour, cluster: Cluster, name: str) -> None:
        self.flavour, self.cluster = flavour, cluster
        self.name = f"{name.replace('.', '-')}-{flavour.name}-{uuid.uuid4().hex[:6]}"
        self.used: set[str] = set()
        self._stack = contextlib.AsyncExitStack()
        self._wrapped = (*flavour.classes(), ItemPaged, AsyncItemPaged)
        self._client: Handle | None = None
        self._admin: Handle | None = None

    async def __aenter__(self) -> "Space":
        return self

    async def __aexit__(self, *why: Any) -> None:
        await self._stack.aclose()

    def handle(self, thing: Any) -> Handle:
        return Handle(thing, self.used, self._wrapped)

    async def open(self, thing: Any) -> Handle:
        """Entered now, and left at the end of the check."""
        handle = thing if isinstance(thing, Handle) else self.handle(thing)
        return await self._stack.enter_async_context(handle)

    async def new_client(self, **options: Any) -> Handle:
        kind = self.flavour.package.ServiceBusClient
        text = self.cluster.connection_string(self.cluster.amqp)
        self.used.add(f"{kind.__name__}.from_connection_string")
        options = {**self.cluster.client_options(), **options}
        return await self.open(kind.from_connection_string(text, **options))

    async def client(self) -> Handle:
        if self._client is None:
            self._client = await self.new_client()
        return self._client

    async def impatient(self) -> Handle:
        """A client that does not try again, for errors which the SDK takes for passing ones."""
        return await self.new_client(retry_total=0)

    async def admin(self) -> Handle:
        if self._admin is None:
            kind = self.flavour.administration
            text = self.cluster.connection_string(self.cluster.http)
            self.used.add(f"{kind.__name__}.from_connection_string")
            options = (
                {"connection_verify": os.environ["MAYFLY_AUTHORITY"]}
                if is_secure()
                else {"transport": self.flavour.transport()}
            )
            self._admin = await self.open(kind.from_connection_string(text, **options))
        return self._admin

    async def queue(self, **properties: Any) -> str:
        await (await self.admin()).create_queue(self.name, **properties)
        return self.name

    async def topic(self, *subscriptions: str, **properties: Any) -> str:
        """A topic, with subscriptions that take everything."""
        admin = await self.admin()
        await admin.create_topic(self.name, **properties)
        for subscription in subscriptions:
            await admin.create_subscription(self.name, subscription)
        return self.name

    async def sender(self, queue: str) -> Handle:
        return await self.open(await (await self.client()).get_queue_sender(queue))

    async def topic_sender(self, topic: str) -> Handle:
        return await self.open(await (await self.client()).get_topic_sender(topic))

    async def receiver(self, queue: str, **options: Any) -> Handle:
        return await self.open(await (await self.client()).get_queue_receiver(queue, **options))

    async def subscriber(self, topic: str, subscription: str, **options: Any) -> Handle:
        client = await self.client()
        return await self.open(
            await client.get_subscription_receiver(topic, subscription, **options)
        )

    async def send(self, queue: str, *texts: str, **properties: Any) -> None:
        """One batch of a message for each text."""
        sender = await self.sender(queue)
        await sender.send_messages([ServiceBusMessage(text, **properties) for text in texts])
        await sender.close()

    async def renewer(self, **options: Any) -> Handle:
        return await self.open(self.flavour.package.AutoLockRenewer(**options))


def body(message: ServiceBusReceivedMessage) -> str:
    return b"".join(message.body).decode()


def bodies(messages: Iterable[ServiceBusReceivedMessage]) -> list[str]:
    return [body(message) for message in messages]


async def receive(receiver: Handle, count: int = 1) -> list[ServiceBusReceivedMessage]:
    """Exactly so many messages, however many calls it takes."""
    messages: list[ServiceBusReceivedMessage] = []
    until = time.monotonic() + OPENED
    while len(messages) < count and (rest := until - time.monotonic()) > 0:
        left = count - len(messages)
        messages += await receiver.receive_messages(max_message_count=left, max_wait_time=rest)
    assert len(messages) == count, f"{len(messages)} messages arrived, not {count}"
    return messages


async def take(receiver: Handle, count: int = 1) -> list[str]:
    """The bodies of so many messages, completed."""
    messages = await receive(receiver, count)
    for message in messages:
        await receiver.complete_message(message)
    return bodies(messages)


async def empty(receiver: Handle) -> bool:
    return not await receiver.receive_messages(max_wait_time=QUIET)


async def collect(paged: Handle) -> list[Any]:
    return [item async for item in paged]


async def raises(kind: type[BaseException], call: Awaitable[Any]) -> Any:
    """The exception of that kind which the call ends with."""
    try:
        result = await call
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was expected, not {result!r:.80}")


def equal(seen: Any, expected: Any, what: str = "") -> None:
    assert seen == expected, f"{what}{': ' if what else ''}{seen!r}, not {expected!r}"


@dataclasses.dataclass(frozen=True)
class Check:
    name: str
    methods: tuple[str, ...]
    function: Callable[[Space], Awaitable[None]]
    flavours: tuple[str, ...]


CHECKS: list[Check] = []


def check(*methods: str, flavours: tuple[str, ...] = ("sync", "async")) -> Callable[..., Any]:
    """Registers a check that proves these methods, each of which it has to call."""

    def register(function: Callable[[Space], Awaitable[None]]) -> Any:
        name = f"{function.__module__}.{function.__name__}"
        CHECKS.append(Check(name, methods, function, flavours))
        return function

    return register


async def run_check(flavour: Flavour, cluster: Cluster, check: Check) -> dict[str, Any]:
    started, failure, trace = time.monotonic(), None, ""
    try:
        async with asyncio.timeout(CHECK_MAX), Space(flavour, cluster, check.name) as space:
            await check.function(space)
            skipped = sorted(set(check.methods) - space.used)
            assert not skipped, f"the check does not call {', '.join(skipped)}"
    except Exception as error:  # Whatever it is, it is a line of the table.
        failure = f"{type(error).__name__}: {error}".splitlines()[0][:240]
        trace = traceback.format_exc()
    return {
        "name": check.name,
        "says": (check.function.__doc__ or "").split("\n")[0],
        "methods": check.methods,
        "failure": failure,
        "trace": trace,
        "seconds": round(time.monotonic() - started, 1),
    }


async def run_checks(
    flavour: Flavour, cluster: Cluster, jobs: int, only: str | None
) -> list[dict[str, Any]]:
    """Runs the checks, so many beside each other, each on entities of its own."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(8 * jobs))
    slots = asyncio.Semaphore(jobs)

    async def in_turn(check: Check) -> dict[str, Any]:
        async with slots:
            return await run_check(flavour, cluster, check)

    chosen = [check for check in CHECKS if flavour.name in check.flavours]
    chosen = [check for check in chosen if only is None or only in check.name]
    return await asyncio.gather(*map(in_turn, chosen))
