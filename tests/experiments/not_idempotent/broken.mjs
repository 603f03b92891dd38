// Takes orders and sends receipts, as often as an order comes.
import { ServiceBusClient } from "../../sdk/js/sdk.mjs";

const client = new ServiceBusClient(process.env.MAYFLY_CONNECTION_STRING);
const orders = client.createReceiver("orders");
const receipts = client.createSender("receipts");
for (;;) {
  for (const order of await orders.receiveMessages(1, { maxWaitTimeInMs: 1000 })) {
    const correlationId = order.messageId;
    await receipts.sendMessages({ body: "done", correlationId });
    try {
      await orders.completeMessage(order);
    } catch (error) {
      console.log(`${order.messageId} comes again: ${error.code}`);
    }
  }
}
