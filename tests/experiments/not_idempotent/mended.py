"""Takes orders and sends receipts. A receipt has an id that follows from its order's: the queue of receipts, which
detects duplicates, drops a second one."""

import os

from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import MessageLockLostError

string = os.environ["MAYFLY_CONNECTION_STRING"]
with (
    ServiceBusClient.from_connection_string(string) as client,
    client.get_queue_receiver("orders") as orders,
    client.get_queue_sender("receipts") as receipts,
):
    while True:
        for order in orders.receive_messages(max_message_count=1, max_wait_time=1):
            receipt = ServiceBusMessage(f"done: {order}", correlation_id=order.message_id)
            receipt.message_id = f"receipt-{order.message_id}"
            receipts.send_messages(receipt)
            try:
                orders.complete_message(order)
            except MessageLockLostError as error:
                print(f"{order} comes again: {error}", flush=True)
