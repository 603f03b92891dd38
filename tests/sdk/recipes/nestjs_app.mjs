// NestJS over Service Bus: told its broker in one string. Emits and handles an event, sends a request
// and is answered. Decorators are called as TypeScript would call them.
import { EventEmitter, once } from "node:events";
import { createRequire } from "node:module";
import { join } from "node:path";

const require = createRequire(join(process.env.MAYFLY_RECIPES_MODULES, "package.json"));
require("reflect-metadata");
const { Controller, Module } = require("@nestjs/common");
const { NestFactory } = require("@nestjs/core");
const {
  AzureServiceBusClient,
  AzureServiceBusServer,
  Queue,
} = require("nestjs-azure-service-bus-transporter");
const { firstValueFrom, timeout } = require("rxjs");

const ANSWER_MAX_MS = 20_000;
const connection = { connectionString: process.env.MAYFLY_STRING, options: {} };
const events = new EventEmitter();

class Orders {
  order(message) {
    events.emit("order", message.body);
  }

  price(message) {
    return message.body.lamps * 21;
  }
}

function handles(method, queueName) {
  const descriptor = Object.getOwnPropertyDescriptor(Orders.prototype, method);
  const options = { autoCompleteMessages: true };
  Queue({ queueName, receiveMode: "peekLock", options })(Orders.prototype, method, descriptor);
}

handles("order", "nestjs-orders");
handles("price", "nestjs-prices");
Controller()(Orders);

class App {}
Module({ controllers: [Orders] })(App);

const strategy = new AzureServiceBusServer(connection);
const app = await NestFactory.createMicroservice(App, { strategy, logger: ["error"] });
await app.listen();
const client = new AzureServiceBusClient(connection);
const handled = once(events, "order");
client.emit({ name: "nestjs-orders", options: {} }, { body: { what: "a lamp" } });
console.log("handled", ...(await handled));
const request = client.send({ name: "nestjs-prices", options: {} }, { body: { lamps: 2 } });
console.log("answered", await firstValueFrom(request.pipe(timeout(ANSWER_MAX_MS))));
await app.close();
await client.close();
// The SDK leaves timers behind, of links that the transport closes and does not wait for.
process.exit(0);
