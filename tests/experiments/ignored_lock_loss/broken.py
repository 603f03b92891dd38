"""Takes orders and sends receipts, whether it holds an order still or not."""

import os
import time

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
            # Who asks for chandeliers first waits until they are there.
            is_slow = str(order) == "chandeliers" and order.delivery_count == 0
            time.sleep(6.5 if is_slow else 0.02)
            receipts.send_messages(ServiceBusMessage("done", correlation_id=order.message_id))
            try:
                orders.complete_message(order)
            except MessageLockLostError as error:
                print(f"{order.message_id}: {error}", flush=True)
