// Takes orders and sends receipts. Each order is completed when its receipt is sent: what is in hand when the program
// ends comes again.
import { setTimeout as sleep } from "node:timers/promises";
import { ServiceBusClient } from "../../sdk/js/sdk.mjs";

const client = new ServiceBusClient(process.env.MAYFLY_CONNECTION_STRING);
const orders = client.createReceiver("orders");
const receipts = client.createSender("receipts");
for (;;) {
  for (const order of await orders.receiveMessages(10, { maxWaitTimeInMs: 1000 })) {
    await sleep(50); // The work.
    // The queue drops a second one.
    const messageId = `receipt-${order.messageId}`;
    await receipts.sendMessages({ body: "done", correlationId: order.messageId, messageId });
    await orders.completeMessage(order);
    console.log(`done: ${order.messageId}`);
  }
}
