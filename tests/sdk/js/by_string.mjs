// The thinnest programs of the JS SDK: a connection string, and nothing else that names a broker.
//
//     by_string.mjs QUEUE PART…    the string is MAYFLY_STRING; a line of JSON for each part
import { ServiceBusAdministrationClient, ServiceBusClient, WebSocket } from "./sdk.mjs";

const RECEIVE_MAX_MS = 10_000;
const once = { retryOptions: { maxRetries: 0, timeoutInMs: RECEIVE_MAX_MS } };

async function thereAndBack(text, queue, options) {
  const client = new ServiceBusClient(text, { ...once, ...options });
  try {
    const body = `over ${options.webSocketOptions ? "a WebSocket" : "AMQP"}`;
    await client.createSender(queue).sendMessages({ body });
    const receiver = client.createReceiver(queue);
    const received = await receiver.receiveMessages(1, { maxWaitTimeInMs: RECEIVE_MAX_MS });
    for (const message of received) await receiver.completeMessage(message);
    const bodies = received.map((message) => message.body);
    if (bodies.length !== 1 || bodies[0] !== body)
      throw new Error(`sent "${body}", received ${JSON.stringify(bodies)}`);
  } finally {
    await client.close();
  }
}

const parts = {
  client: (text, queue) => thereAndBack(text, queue, {}),
  websocket: (text, queue) =>
    thereAndBack(text, queue, { webSocketOptions: { webSocket: WebSocket } }),
  administration: async (text, queue) => {
    const admin = new ServiceBusAdministrationClient(text, { retryOptions: { maxRetries: 0 } });
    await admin.getNamespaceProperties();
    const { name: made } = await admin.createQueue(`${queue}-made`);
    const names = [];
    for await (const found of admin.listQueues()) names.push(found.name);
    await admin.deleteQueue(made);
    if (!names.includes(made)) throw new Error(`${made} was made, and ${names} are listed`);
  },
};

const text = process.env.MAYFLY_STRING;
const [queue, ...chosen] = process.argv.slice(2);
for (const part of chosen) {
  let failure = null;
  try {
    await parts[part](text, queue);
  } catch (error) {
    failure = `${error.name}: ${error.code ?? ""} ${error.message}`;
  }
  console.log(JSON.stringify({ part, failure }));
}
process.exit(0);
