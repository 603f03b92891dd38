"""Takes orders and sends receipts. The lock of an order is renewed while there is work on it."""

import os
import time

from azure.servicebus import AutoLockRenewer, ServiceBusClient, ServiceBusMessage

string = os.environ["MAYFLY_CONNECTION_STRING"]
with (
    AutoLockRenewer(max_lock_renewal_duration=60) as renewer,
    ServiceBusClient.from_connection_string(string) as client,
    client.get_queue_receiver("orders", auto_lock_renewer=renewer) as orders,
    client.get_queue_sender("receipts") as receipts,
):
    while True:
        for order in orders.receive_messages(max_message_count=1, max_wait_time=1):
            # Who asks for chandeliers first waits until they are there.
            is_slow = str(order) == "chandeliers" and order.delivery_count == 0
            time.sleep(6.5 if is_slow else 0.02)
            receipts.send_messages(ServiceBusMessage("done", correlation_id=order.message_id))
            orders.complete_message(order)
