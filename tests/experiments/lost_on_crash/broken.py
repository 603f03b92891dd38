"""Takes orders and sends receipts. Each order is deleted as it is handed over: what is in hand when the program ends
is lost."""

import os
import time

from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusReceiveMode

string = os.environ["MAYFLY_CONNECTION_STRING"]
delete = ServiceBusReceiveMode.RECEIVE_AND_DELETE
with (
    ServiceBusClient.from_connection_string(string) as client,
    client.get_queue_receiver("orders", receive_mode=delete) as orders,
    client.get_queue_sender("receipts") as receipts,
):
    while True:
        for order in orders.receive_messages(max_message_count=10, max_wait_time=1):
            time.sleep(0.05)  # The work.
            receipt = ServiceBusMessage(f"done: {order}", correlation_id=order.message_id)
            receipt.message_id = f"receipt-{order.message_id}"
            receipts.send_messages(receipt)
            print(f"done: {order}", flush=True)
