//! `docs/reference/audit.md`: what the audit trail tells of, as a page.

use audit::Action;

use super::{cell, hold};

const HEAD: &str = "\
# Audit trail

One JSON object a line in the file `audit.file`, or a record of the log with the target `audit`; [Security](../operations/security.md#audit)
says how it is switched on and rotated. Fields there is nothing to say of are left out.

| field | what it says |
|---|---|
| `at` | when it was asked for, by the node's own clock, UTC (RFC 3339) |
| `node` | the node that the client spoke to |
| `protocol`, `address` | `amqp`, `http` or `grpc`, and where the client came from |
| `principal` | how the client proved who it is: with a `key` of the configuration, a `rule` of an entity, a `namespace-rule`, a `certificate`, a `join-token`; `anyone` where no proof is asked for, `nobody` where none was good |
| `key`, `key_of`, `certificate` | the key's name, the entity whose rule it is, the certificate's subject. Of a refused proof the key that it names, if there is one |
| `token` | the id of the join token |
| `action` | one of those below |
| `namespace` | the one that was asked, if it is not the default one |
| `object` | the entity, rule, node, group or join token |
| `outcome` | `done`; `refused`; `not-done`, and safe to ask again; `perhaps-done`, as where the client went away before the answer |
| `reason` | why it is not known to be done: the error's name, or `no-proof`, `malformed`, `expired`, `unknown-key`, `wrong-key`, `certificate`, `other-resource`, `no-right`, `too-many`; of join tokens `token-unknown`, `token-used`, `token-expired`, `token-of-another-node` |
| `count` | so many alike, this one included; left out: one |";

fn page() -> String {
    let rows = Action::ALL
        .iter()
        .map(|action| format!("| `{}` | {} |\n", action.name(), cell(action.text())));
    let rows: String = rows.collect();
    format!("{HEAD}\n\n## Actions\n\n| action | |\n|---|---|\n{rows}")
}

#[test]
fn the_reference_of_the_audit_trail_is_current() {
    hold("audit.md", &page());
}
