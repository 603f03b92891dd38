//! A subscription of the model: a queue, and what its rules hand it.

use std::collections::BTreeMap;

use domain::{
    Lifetime, LockToken, NewRule, Properties, QueueId, RULE_NAME, RuleFilter, Span, SqlText,
    SubscriptionProperties, Timestamp, Value,
};

use super::DESCRIPTION;
use super::act::{Make, Take};
use crate::message::{Message, Place};
use crate::plain::Plain;

pub struct Subscription {
    pub plain: Plain,
    /// By name, in order of creation.
    pub rules: Vec<(u8, Take, Option<Make>)>,
    pub properties: SubscriptionProperties,
    pub tokens: Vec<(QueueId, LockToken)>,
}

impl Subscription {
    /// An update of it, or a change of its rules (IDLE-7).
    pub fn used_at(&mut self, now: Timestamp) {
        self.plain.last_use = self.plain.last_use.max(now);
    }

    /// RULE-5 to RULE-7, RULE-20. `how`: as for `deliver`; `described`: what the machine says of a copy that failed.
    pub fn take(
        &mut self,
        number: u64,
        n: i64,
        how: (Option<Span>, bool),
        described: impl Fn(u64) -> Option<Value>,
    ) {
        let keeps = self.properties.dead_letter_on_filter_errors;
        let takes = |take: &Take| match take {
            Take::All => true,
            Take::No | Take::Fails => false,
            Take::Equal(k) => n == *k,
            Take::Above(k) => n > *k,
        };
        let failure = |plain: &mut Plain, reason: &str| {
            let mut set = Properties::new();
            set.insert("DeadLetterReason".to_owned(), Value::String(reason.to_owned()));
            set.extend(described(plain.next).map(|text| (DESCRIPTION.to_owned(), text)));
            deliver(plain, number, how, Place::Dead, set);
        };
        if self.rules.iter().any(|(_, take, make)| takes(take) && make.is_none()) {
            deliver(&mut self.plain, number, how, Place::Main, Properties::new());
        }
        if keeps && self.rules.iter().any(|(_, take, _)| matches!(take, Take::Fails)) {
            failure(&mut self.plain, "FilterException");
        }
        for (name, take, make) in &self.rules {
            let (true, Some(make)) = (takes(take), make) else { continue };
            let by = (RULE_NAME.to_owned(), Value::String(rule_name(*name)));
            let set = match make {
                Make::Next => [by, ("n".to_owned(), Value::Long(n + 1))].into(),
                Make::Gone => [by].into(),
                Make::Fails if keeps => {
                    failure(&mut self.plain, "RuleActionException");
                    continue;
                }
                Make::Fails => continue,
            };
            deliver(&mut self.plain, number, how, Place::Main, set);
        }
    }
}

/// `how`: its own time to live, and whether it waited for its time.
fn deliver(plain: &mut Plain, body: u64, how: (Option<Span>, bool), place: Place, set: Properties) {
    let (ttl, waited) = how;
    let was_scheduled = waited && place == Place::Main;
    let mut lifetime = plain.lifetime(ttl);
    let default_ttl = plain.properties.default_ttl;
    if place == Place::Dead && lifetime == Lifetime::Derived && !default_ttl.is_max() {
        // TTL-18.
        let expires_at = plain.at.plus(default_ttl);
        lifetime = Lifetime::Inherited { ttl: default_ttl, expires_at };
    }
    let message = Message {
        number: plain.next,
        body,
        place,
        since: plain.at,
        available_at: plain.at,
        ttl,
        lifetime,
        deferred: false,
        was_scheduled,
        count: 0,
        session: None,
        lock: None,
        sent_bytes: 10,
        sent_header_bytes: 4,
        set,
        removed: Default::default(),
    };
    plain.messages.push(message);
    plain.next += 1;
    plain.gone.accepted += 1;
}

pub fn rule_name(name: u8) -> String {
    format!("rule{name}")
}

pub fn rule(name: u8, take: Take, make: Option<Make>) -> NewRule {
    let sql = |text: String| SqlText { text, ..SqlText::default() };
    let filter = match take {
        Take::All => RuleFilter::True,
        Take::No => RuleFilter::False,
        Take::Equal(k) => {
            let properties = [("N".to_owned(), Value::Int(k as i32))].into();
            let system = BTreeMap::new();
            RuleFilter::Correlation(domain::Conditions { system, properties, ..Default::default() })
        }
        Take::Above(k) => RuleFilter::Sql(sql(format!("n > {k}"))),
        Take::Fails => RuleFilter::Sql(sql("n / 0 = 1".to_owned())),
    };
    let action = make.map(|make| match make {
        Make::Next => sql("SET n = n + 1".to_owned()),
        Make::Gone => sql("REMOVE n".to_owned()),
        Make::Fails => sql("SET n = n / 0".to_owned()),
    });
    NewRule { name: rule_name(name), filter, action }
}
