// The SDK, from where the driver has installed it: `MAYFLY_SDK_MODULES` is the directory above
// `node_modules`. Modules beside this file are not looked for there by `import`.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";

const require = createRequire(resolve(process.env.MAYFLY_SDK_MODULES ?? ".", "package.json"));

export const { ServiceBusClient, ServiceBusAdministrationClient, isServiceBusError } =
  require("@azure/service-bus");
export const Long = require("long");
/** What Node.js before 22 has none of. */
export const { WebSocket } = require("ws");

const CLASSES = [
  "ServiceBusClient",
  "ServiceBusSender",
  "ServiceBusMessageBatch",
  "ServiceBusReceiver",
  "ServiceBusSessionReceiver",
  "ServiceBusRuleManager",
  "ServiceBusAdministrationClient",
];

/** Every public method of the SDK as `Class.name`, from its own type declarations. */
export function inventory() {
  const manifest = require.resolve("@azure/service-bus/package.json");
  const types = join(dirname(manifest), require("@azure/service-bus/package.json").types);
  const text = readFileSync(types, "utf8").replace(/\/\*\*[^]*?\*\//g, "");
  const methods = new Set();
  for (const kind of CLASSES) {
    const declared = new RegExp(
      `^export declare (?:class|interface) ${kind}\\b[^{]*\\{([^]*?)^\\}`,
      "m",
    ).exec(text)[1];
    for (const [, name] of declared.matchAll(/^ {4}(?!private)(?:readonly )?(\w+)(?=[(:<])/gm)) {
      if (name !== "constructor") methods.add(`${kind}.${name}`);
    }
  }
  return [...methods];
}

/** How all goes: `plain`, or with TLS, `amqps` or `wss`. Node.js trusts NODE_EXTRA_CA_CERTS. */
const transport = process.env.MAYFLY_TRANSPORT ?? "plain";

/** Of an emulator, or as Azure hands them out for what goes over TLS. */
export function connectionString(address) {
  const text =
    `Endpoint=sb://${address};SharedAccessKeyName=RootManageSharedAccessKey;` +
    "SharedAccessKey=SAS_KEY_VALUE;";
  return transport === "plain" ? `${text}UseDevelopmentEmulator=true;` : text;
}

/** Options of a client that speaks AMQP as the driver has chosen. */
export function clientOptions(cluster) {
  if (transport === "plain") return {};
  return transport === "wss"
    ? {
        customEndpointAddress: `sb://${cluster.http}`,
        webSocketOptions: { webSocket: WebSocket },
      }
    : { customEndpointAddress: `sb://${process.env.MAYFLY_AMQPS}` };
}

/** An administration client; without TLS, which the SDK offers no option for, unless all goes with it. */
export function administration(address) {
  const client = new ServiceBusAdministrationClient(connectionString(address));
  if (transport !== "plain") return client;
  client.pipeline.addPolicy({
    name: "plainHttp",
    sendRequest(request, next) {
      request.url = request.url.replace(/^https:/, "http:");
      request.allowInsecureConnection = true;
      return next(request);
    },
  });
  return client;
}
