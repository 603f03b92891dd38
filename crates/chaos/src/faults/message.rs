//! Faults that clients over AMQP meet, from the broker itself: rules as `mayfly fault add` takes them, of which no
//! one breaks a promise.

use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use crate::cluster::Cluster;

/// There is one at a time.
pub const RULE: &str = "chaos";

/// Has clients meet one of them, for some of what they do; what it is.
///
/// # Errors
/// Why not: the cluster does not allow it, or did not say in time that it does it.
pub async fn strike(cluster: &Cluster, random: &mut ChaCha8Rng) -> Result<String, String> {
    let (told, rule) = draw(random);
    let observer = cluster.observer().map_err(|error| error.to_string())?;
    observer.put_fault_rule(RULE, &rule.to_string()).await.map_err(|error| error.to_string())?;
    Ok(told)
}

/// What comes without a rule comes as well: messages that arrive late or never, verdicts that are lost before or after
/// the deed, connections and links that end. A lock that lapses early, or a message out of order, would not.
fn draw(random: &mut ChaCha8Rng) -> (String, Value) {
    const ANY: &str = "*links*";
    // Of a session, messages keep their order; and a goodbye frees it (SESS-14), which its holder may not hear in time
    // to know it.
    const WITHOUT_SESSIONS: &str = "*links";
    let effects = [
        json!({"operation": "receive", "entity": WITHOUT_SESSIONS, "effect": "delay", "time": "50ms..800ms"}),
        json!({"operation": ["complete", "abandon"], "entity": ANY, "effect": "delay", "phase": "after", "time": "50ms..1s"}),
        json!({"operation": "complete", "entity": ANY, "effect": "lose-answer"}),
        json!({"operation": "complete", "entity": ANY, "effect": "lose-request"}),
        json!({"operation": "receive", "entity": ANY, "effect": "cut"}),
        json!({"operation": "receive", "entity": ANY, "effect": "reset"}),
        json!({"operation": "complete", "entity": WITHOUT_SESSIONS, "effect": "close"}),
        json!({"operation": "receive", "entity": WITHOUT_SESSIONS, "effect": "detach"}),
        json!({"operation": "complete", "entity": ANY, "effect": "silence", "time": "500ms..3s"}),
        json!({"operation": "accept-session", "entity": ANY, "effect": "refuse", "error": "ServiceBusy"}),
        json!({"operation": "open-link", "entity": ANY, "effect": "throttle", "per_second": 2}),
    ];
    let mut rule = effects.choose(random).cloned().unwrap_or_default();
    let told = format!("{} at {}", rule["effect"], rule["operation"]).replace('"', "");
    rule["probability"] = json!(0.3);
    rule["seed"] = json!(random.random::<u32>());
    // Should nobody be there to remove it.
    rule["ends_after"] = json!("1m");
    (told, rule)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use fault_rules::Rule;
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn every_rule_that_may_be_drawn_makes_sense() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let drawn: BTreeSet<String> = (0..200)
            .map(|_| {
                let (told, rule) = draw(&mut random);
                Rule::parse(&rule.to_string()).unwrap_or_else(|why| panic!("{rule}: {why}"));
                told
            })
            .collect();
        assert_eq!(drawn.len(), 11, "{drawn:?}");
    }
}
