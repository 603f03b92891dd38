//! Input for programs: so many messages at a rate.

use std::collections::BTreeMap;
use std::time::Duration;

use load::Template;
use serde::Deserialize;

use super::TimeText;

/// Messages that the experiment itself sends.
#[derive(Clone, Debug)]
pub struct Sends {
    /// A queue or topic.
    pub to: String,
    pub count: u64,
    /// None: at once.
    pub per_second: Option<f64>,
    pub starts_at: Duration,
    pub body: Template,
    pub message_id: Template,
    pub correlation_id: Option<Template>,
    pub session_id: Option<Template>,
    pub subject: Option<Template>,
    pub reply_to: Option<String>,
    pub properties: BTreeMap<String, Template>,
    /// How long messages live.
    pub ttl: Option<Duration>,
}

/// As written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SendsText {
    pub to: String,
    pub count: u64,
    pub rate: Option<f64>,
    start: Option<TimeText>,
    body: Option<Template>,
    message_id: Option<Template>,
    correlation_id: Option<Template>,
    session_id: Option<Template>,
    subject: Option<Template>,
    reply_to: Option<String>,
    #[serde(default)]
    properties: BTreeMap<String, Template>,
    ttl: Option<TimeText>,
}

/// Each its own in a run.
const MESSAGE_ID: &str = "{producer}-{number}";
const BODY: &str = "{number}";

impl SendsText {
    /// # Errors
    /// The key that is wrong, and why.
    pub fn read(self) -> Result<Sends, (&'static str, String)> {
        if self.to.is_empty() {
            return Err(("to", "it names nothing; write a queue or a topic".to_owned()));
        }
        if !(1..=COUNT_MAX).contains(&self.count) {
            return Err(("count", format!("it is {}, allowed is 1 to {COUNT_MAX}", self.count)));
        }
        if let Some(rate) = self.rate.filter(|rate| !(*rate > 0.0 && *rate <= PER_SECOND_MAX)) {
            let told = format!("it is {rate}, allowed is more than 0 and at most {PER_SECOND_MAX}");
            return Err(("rate", told));
        }
        let or = |given: Option<Template>, text: &str| match given {
            Some(template) => Ok(template),
            None => text.parse::<Template>().map_err(|told| ("body", told)),
        };
        Ok(Sends {
            body: or(self.body, BODY)?,
            message_id: or(self.message_id, MESSAGE_ID)?,
            to: self.to,
            count: self.count,
            per_second: self.rate,
            starts_at: self.start.map_or(Duration::ZERO, |time| time.0),
            correlation_id: self.correlation_id,
            session_id: self.session_id,
            subject: self.subject,
            reply_to: self.reply_to,
            properties: self.properties,
            ttl: self.ttl.map(|time| time.0),
        })
    }
}

/// Lives of messages are kept in memory; who wants more wants `mayfly load`.
const COUNT_MAX: u64 = 1_000_000;
const PER_SECOND_MAX: f64 = 10_000.0;
