"""FastStream over Service Bus, told its broker in one string: what one handles, another is told."""

import asyncio
import os

from faststream import FastStream
from faststream_azure_servicebus import ServiceBusBroker

PRICED_MAX = 60  # Seconds.

broker = ServiceBusBroker(os.environ["MAYFLY_STRING"])
app = FastStream(broker)
priced: asyncio.Future[int]


@broker.subscriber(queue="faststream-orders")
@broker.publisher(queue="faststream-prices")
async def order(body: dict[str, int]) -> dict[str, int]:
    return {"price": body["lamps"] * 21}


@broker.subscriber(topic="faststream-topic", subscription="all")
async def told(body: dict[str, int]) -> None:
    await broker.publish(body, queue="faststream-orders")


@broker.subscriber(queue="faststream-prices")
async def price(body: dict[str, int]) -> None:
    priced.set_result(body["price"])


@app.after_startup
async def converse() -> None:
    global priced
    priced = asyncio.get_running_loop().create_future()
    await broker.publish({"lamps": 2}, topic="faststream-topic")
    print("priced", await asyncio.wait_for(priced, PRICED_MAX), flush=True)
    app.exit()


asyncio.run(app.run())
