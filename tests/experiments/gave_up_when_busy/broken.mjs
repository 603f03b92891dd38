// Takes orders and sends receipts. A receipt that is refused is written down, and the order done.
import { ServiceBusClient } from "../../sdk/js/sdk.mjs";

const once = { retryOptions: { maxRetries: 0 } };
const client = new ServiceBusClient(process.env.MAYFLY_CONNECTION_STRING, once);
const orders = client.createReceiver("orders");
const receipts = client.createSender("receipts");
for (;;) {
  for (const order of await orders.receiveMessages(1, { maxWaitTimeInMs: 1000 })) {
    try {
      await receipts.sendMessages({ body: "done", correlationId: order.messageId });
    } catch (error) {
      console.log(`no receipt for ${order.messageId}: ${error.code}`);
    }
    await orders.completeMessage(order);
  }
}
