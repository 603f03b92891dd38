//! Keys of a queue's or topic's own rules (ENT-11), which stand in its description.

use anyhow::{Context, bail};
use client::v1::{self, AccessRight, AuthorizationRule, AuthorizationRules};
use client::{Client, Error};

use super::Row;

/// A queue or a topic.
enum Described {
    Queue(Vec<AuthorizationRule>),
    Topic(Vec<AuthorizationRule>),
}

impl Described {
    async fn find(client: &Client, entity: &str) -> anyhow::Result<Described> {
        let rules = |rules: Option<AuthorizationRules>| rules.unwrap_or_default().rules;
        match client.get_queue(entity).await {
            Ok(queue) => {
                let properties = queue.properties.unwrap_or_default();
                Ok(Described::Queue(rules(properties.authorization_rules)))
            }
            // What it says of a topic says nothing of a queue.
            Err(Error::Refused(detail)) if detail.name == NOT_FOUND => {
                let topic = client.get_topic(entity).await;
                let topic = topic.with_context(|| format!("no queue or topic '{entity}'"))?;
                let properties = topic.properties.unwrap_or_default();
                Ok(Described::Topic(rules(properties.authorization_rules)))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn rules(&self) -> &[AuthorizationRule] {
        match self {
            Described::Queue(rules) | Described::Topic(rules) => rules,
        }
    }

    async fn update(
        &self,
        client: &Client,
        entity: &str,
        rules: Vec<AuthorizationRule>,
    ) -> Result<(), Error> {
        let authorization_rules = Some(AuthorizationRules { rules });
        match self {
            Described::Queue(_) => {
                let properties = v1::QueueProperties { authorization_rules, ..Default::default() };
                client.update_queue(entity, properties).await.map(drop)
            }
            Described::Topic(_) => {
                let properties = v1::TopicProperties { authorization_rules, ..Default::default() };
                client.update_topic(entity, properties).await.map(drop)
            }
        }
    }
}

/// As the broker calls it.
const NOT_FOUND: &str = "MessagingEntityNotFound";

pub async fn list(client: &Client, entity: &str) -> anyhow::Result<Vec<Row>> {
    let found = Described::find(client, entity).await?;
    let kept = |key: &str| if key.is_empty() { "none" } else { "in the cluster" }.to_owned();
    let row = |rule: &AuthorizationRule| Row {
        name: rule.name.clone(),
        rights: rule.rights().map(right).collect(),
        scope: entity.to_owned(),
        primary: kept(&rule.primary_key),
        secondary: kept(&rule.secondary_key),
    };
    Ok(found.rules().iter().map(row).collect())
}

fn right(right: AccessRight) -> &'static str {
    match right {
        AccessRight::Listen => "listen",
        AccessRight::Send => "send",
        AccessRight::Manage => "manage",
        AccessRight::Unspecified => "?",
    }
}

/// What to say when it is done.
pub async fn rotate(client: &Client, entity: &str, name: &str) -> anyhow::Result<String> {
    let found = Described::find(client, entity).await?;
    let primary_key = service::draw_key();
    let rules = rotated(found.rules(), name, &primary_key).with_context(|| {
        let names: Vec<&str> = found.rules().iter().map(|rule| rule.name.as_str()).collect();
        match names.is_empty() {
            true => format!("'{entity}' has no authorization rules"),
            false => format!("'{entity}' has no rule '{name}'; it has {}", names.join(", ")),
        }
    })?;
    if let Err(error) = found.update(client, entity, rules).await {
        // Whoever rotates once more takes the key away that clients have, so it must be known.
        let is_done = match error {
            Error::PerhapsDone(_) => is_primary(client, entity, name, &primary_key).await,
            Error::Refused(_) | Error::NotDone(_) => Some(false),
        };
        match is_done {
            Some(true) => (),
            Some(false) => return Err(error.into()),
            None => bail!(
                "{error}; the rule may be rotated: see mayfly queue show {entity} --keys before you rotate it again"
            ),
        }
    }
    Ok(format!(
        "rule '{name}' of '{entity}' has a new primary key; the one it had is the secondary now, and counts until \
         the next rotation"
    ))
}

/// `None`: nobody says.
async fn is_primary(client: &Client, entity: &str, name: &str, key: &str) -> Option<bool> {
    let found = Described::find(client, entity).await.ok()?;
    Some(found.rules().iter().any(|rule| rule.name == name && rule.primary_key == key))
}

/// All rules, one of them with another primary key and the one it had as the secondary. The others have
/// no keys: so they keep what they have by then.
fn rotated(
    rules: &[AuthorizationRule],
    name: &str,
    primary_key: &str,
) -> Option<Vec<AuthorizationRule>> {
    rules.iter().find(|rule| rule.name == name)?;
    let rule = |rule: &AuthorizationRule| match rule.name == name {
        true => AuthorizationRule {
            primary_key: primary_key.to_owned(),
            secondary_key: rule.primary_key.clone(),
            ..rule.clone()
        },
        false => AuthorizationRule {
            primary_key: String::new(),
            secondary_key: String::new(),
            ..rule.clone()
        },
    };
    Some(rules.iter().map(rule).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ent_12_only_the_rule_that_is_rotated_has_other_keys() {
        let rule = |name: &str, primary: &str, secondary: &str| AuthorizationRule {
            name: name.to_owned(),
            primary_key: primary.to_owned(),
            secondary_key: secondary.to_owned(),
            rights: vec![AccessRight::Send.into()],
            ..Default::default()
        };
        let rules = [rule("a", "a1", "a2"), rule("b", "b1", "b2")];
        let expected = vec![rule("a", "", ""), rule("b", "new", "b1")];
        assert_eq!(rotated(&rules, "b", "new"), Some(expected));
        assert_eq!(rotated(&rules, "c", "new"), None);
    }
}
