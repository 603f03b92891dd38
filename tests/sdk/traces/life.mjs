// One message's life with the JS SDK, traced by the SDK itself.
//
//     life.mjs ADDRESS QUEUE ENDPOINT    MAYFLY_SDK_MODULES is the directory above `node_modules`

import { createRequire } from "node:module";
import { resolve } from "node:path";

const require = createRequire(resolve(process.env.MAYFLY_SDK_MODULES ?? ".", "package.json"));
const { trace } = require("@opentelemetry/api");
const { OTLPTraceExporter } = require("@opentelemetry/exporter-trace-otlp-proto");
const { registerInstrumentations } = require("@opentelemetry/instrumentation");
const { resourceFromAttributes } = require("@opentelemetry/resources");
const { BatchSpanProcessor, NodeTracerProvider } = require("@opentelemetry/sdk-trace-node");
const { createAzureSdkInstrumentation } = require("@azure/opentelemetry-instrumentation-azure-sdk");

const WITHIN_MS = 30_000;
const [address, queue, url] = process.argv.slice(2);

const provider = new NodeTracerProvider({
  resource: resourceFromAttributes({ "service.name": "javascript" }),
  spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter({ url }))],
});
provider.register();
registerInstrumentations({ instrumentations: [createAzureSdkInstrumentation()] });
// Behind what it is traced with, which looks at what is loaded.
const { ServiceBusClient } = require("@azure/service-bus");

async function live() {
  const client = new ServiceBusClient(
    `Endpoint=sb://${address};SharedAccessKeyName=RootManageSharedAccessKey;` +
      "SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;",
  );
  const take = async (receiver) => {
    const received = await receiver.receiveMessages(1, { maxWaitTimeInMs: WITHIN_MS });
    if (received.length !== 1) throw new Error(`nothing comes from ${receiver.entityPath}`);
    return received[0];
  };
  try {
    await client.createSender(queue).sendMessages({ body: "x" });
    const receiver = client.createReceiver(queue);
    await receiver.abandonMessage(await take(receiver));
    await receiver.deadLetterMessage(await take(receiver));
    const dead = client.createReceiver(queue, { subQueueType: "deadLetter" });
    await dead.completeMessage(await take(dead));
  } finally {
    await client.close();
  }
}

await trace.getTracer("life").startActiveSpan("life", async (span) => {
  try {
    await live();
  } finally {
    span.end();
  }
});
await provider.forceFlush();
await provider.shutdown();
process.exit(0);
