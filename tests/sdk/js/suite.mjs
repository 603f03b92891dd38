// Runs the checks of `@azure/service-bus`, unmodified, against a cluster.
//
//   node suite.mjs --amqp localhost:5700 --http localhost:5300

import { writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { runChecks } from "./harness.mjs";
import { inventory } from "./sdk.mjs";
import "./administration.mjs";
import "./faults.mjs";
import "./messages.mjs";
import "./receiving.mjs";
import "./rules.mjs";
import "./sessions.mjs";
import "./topics.mjs";

const { values } = parseArgs({
  options: {
    amqp: { type: "string", default: "localhost:5700" },
    http: { type: "string", default: "localhost:5300" },
    jobs: { type: "string", default: "12" },
    only: { type: "string" },
    json: { type: "string" },
  },
});

// An error that nobody awaits is the SDK's own business; what it breaks, the checks see.
process.on("unhandledRejection", (error) => console.log(`unhandled: ${error?.message ?? error}`));

const results = await runChecks(values, Number(values.jobs), values.only);
results.sort((one, other) => one.name.localeCompare(other.name));
const failed = results.filter((result) => result.failure);
for (const { name, trace, failure } of values.only ? failed : []) {
  console.log(`${trace}\njs ${name}: ${failure}\n`);
}
console.log(`JS: ${results.length - failed.length} of ${results.length} checks passed`);
if (values.json) {
  writeFileSync(values.json, JSON.stringify({ inventory: inventory(), checks: results }));
}
process.exit(failed.length > 0 || results.length === 0 ? 1 : 0);
