"""Takes orders and sends receipts. A receipt that is refused is written down, and the order done."""

import os

from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusServerBusyError

string = os.environ["MAYFLY_CONNECTION_STRING"]
with (
    ServiceBusClient.from_connection_string(string, retry_total=0) as client,
    client.get_queue_receiver("orders") as orders,
    client.get_queue_sender("receipts") as receipts,
):
    while True:
        for order in orders.receive_messages(max_message_count=1, max_wait_time=1):
            try:
                receipts.send_messages(ServiceBusMessage("done", correlation_id=order.message_id))
            except ServiceBusServerBusyError as error:
                print(f"no receipt for {order.message_id}: {error}", flush=True)
            orders.complete_message(order)
