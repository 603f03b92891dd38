// Takes orders and sends receipts. The SDK waits and tries again, sooner than the 30 s that are its default; an order is
// done once its receipt is sent, and goes back where that cannot be.
import { ServiceBusClient } from "../../sdk/js/sdk.mjs";

const patient = { retryOptions: { retryDelayInMs: 1000 } };
const client = new ServiceBusClient(process.env.MAYFLY_CONNECTION_STRING, patient);
const orders = client.createReceiver("orders");
const receipts = client.createSender("receipts");
for (;;) {
  for (const order of await orders.receiveMessages(1, { maxWaitTimeInMs: 1000 })) {
    try {
      await receipts.sendMessages({ body: "done", correlationId: order.messageId });
      await orders.completeMessage(order);
    } catch (error) {
      if (error.code !== "ServiceBusy") throw error;
      console.log(`${order.messageId} goes back: ${error.code}`);
      await orders.abandonMessage(order);
    }
  }
}
