// Takes orders and sends receipts. The SDK renews the lock of an order while there is work on it.
import { setTimeout as sleep } from "node:timers/promises";
import { ServiceBusClient } from "../../sdk/js/sdk.mjs";

const client = new ServiceBusClient(process.env.MAYFLY_CONNECTION_STRING);
const orders = client.createReceiver("orders", { maxAutoLockRenewalDurationInMs: 60_000 });
const receipts = client.createSender("receipts");
for (;;) {
  for (const order of await orders.receiveMessages(1, { maxWaitTimeInMs: 1000 })) {
    // Who asks for chandeliers first waits until they are there.
    const isSlow = order.body.toString() === "chandeliers" && order.deliveryCount === 0;
    await sleep(isSlow ? 6500 : 20);
    await receipts.sendMessages({ body: "done", correlationId: order.messageId });
    await orders.completeMessage(order);
  }
}
