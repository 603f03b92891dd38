"""Takes orders and sends receipts. Each order is completed when its receipt is sent: what is in hand when the program
ends comes again."""

import os
import time

from azure.servicebus import ServiceBusClient, ServiceBusMessage

string = os.environ["MAYFLY_CONNECTION_STRING"]
with (
    ServiceBusClient.from_connection_string(string) as client,
    client.get_queue_receiver("orders") as orders,
    client.get_queue_sender("receipts") as receipts,
):
    while True:
        for order in orders.receive_messages(max_message_count=10, max_wait_time=1):
            time.sleep(0.05)  # The work.
            receipt = ServiceBusMessage(f"done: {order}", correlation_id=order.message_id)
            # The queue drops a second one.
            receipt.message_id = f"receipt-{order.message_id}"
            receipts.send_messages(receipt)
            orders.complete_message(order)
            print(f"done: {order}", flush=True)
