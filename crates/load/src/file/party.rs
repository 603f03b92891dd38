//! Who sends and who receives.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Deserializer, de};

use super::body::{Bodies, BodyText};
use super::phase::Time;
use crate::distribution::{Share, Sizes, Times};
use crate::rate::Rate;
use crate::template::Template;

/// Producers of one kind.
#[derive(Clone, Debug)]
pub struct Producers {
    pub to: String,
    pub count: u32,
    pub pacing: Pacing,
    /// Messages of one producer that are not answered yet.
    pub window: usize,
    /// Messages sent as one.
    pub batch: usize,
    pub body: Bodies,
    pub ttl: Option<Times>,
    /// How long after it was sent a message is to come out.
    pub schedule: Option<Times>,
    /// Of what is scheduled: cancelled before it comes out.
    pub cancel: Share,
    /// Messages are sent so many in a transaction; no batches then.
    pub transaction: Option<usize>,
    /// Of transactions: rolled back.
    pub roll_back: Share,
    pub message_id: Option<Template>,
    pub session_id: Option<Template>,
    pub subject: Option<Template>,
    pub properties: BTreeMap<String, PropertyText>,
}

/// When they send.
#[derive(Clone, Debug, PartialEq)]
pub enum Pacing {
    /// As soon as earlier ones are answered.
    Closed,
    /// When it is time, whatever became of earlier ones.
    Open(Rate),
}

/// A user property as written.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged, expecting = "it is neither a text, a number nor true or false")]
pub enum PropertyText {
    Flag(bool),
    Long(i64),
    Double(f64),
    Text(Template),
}

/// Consumers of one kind.
#[derive(Clone, Debug)]
pub struct Consumers {
    pub from: String,
    pub count: u32,
    pub mode: Mode,
    pub prefetch: u32,
    /// How long one works on a message.
    pub work: Option<Times>,
    /// Messages that one works on at the same time.
    pub at_a_time: usize,
    /// What is not completed.
    pub abandon: Share,
    pub dead_letter: Share,
    pub defer: Share,
    pub lapse: Share,
    /// While one works on a message, its lock is renewed this often.
    pub renew: Option<Duration>,
    /// Session after session.
    pub sessions: bool,
    /// A session without a message for so long is given back.
    pub session_idle: Duration,
}

impl Producers {
    /// Messages that are handed over, and answered, as one.
    pub fn unit(&self) -> usize {
        self.transaction.unwrap_or(self.batch)
    }
}

impl Consumers {
    /// One that completes at once what it takes.
    pub fn plain(from: String, prefetch: u32) -> Consumers {
        Consumers {
            from,
            count: 1,
            mode: Mode::PeekLock,
            prefetch,
            work: None,
            at_a_time: 1,
            abandon: Share::default(),
            dead_letter: Share::default(),
            defer: Share::default(),
            lapse: Share::default(),
            renew: None,
            sessions: false,
            session_idle: SESSION_IDLE,
        }
    }
}

/// How messages are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    #[default]
    PeekLock,
    ReceiveAndDelete,
}

/// As written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProducersText {
    pub to: toml::Spanned<String>,
    #[serde(default = "one")]
    pub count: toml::Spanned<u32>,
    rate: Option<Rate>,
    #[serde(default = "window")]
    pub window: toml::Spanned<u32>,
    #[serde(default = "one")]
    pub batch: toml::Spanned<u32>,
    #[serde(default = "kibibyte")]
    pub body: toml::Spanned<BodyText>,
    ttl: Option<Times>,
    pub schedule: Option<toml::Spanned<Times>>,
    pub cancel: Option<toml::Spanned<Share>>,
    pub transaction: Option<toml::Spanned<u32>>,
    pub roll_back: Option<toml::Spanned<Share>>,
    message_id: Option<Template>,
    session_id: Option<Template>,
    subject: Option<Template>,
    #[serde(default)]
    properties: BTreeMap<String, PropertyText>,
}

/// As written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ConsumersText {
    pub from: toml::Spanned<String>,
    #[serde(default = "one")]
    pub count: toml::Spanned<u32>,
    #[serde(default)]
    pub mode: Mode,
    #[serde(default = "window")]
    pub prefetch: toml::Spanned<u32>,
    work: Option<Times>,
    #[serde(default = "one")]
    pub at_a_time: toml::Spanned<u32>,
    #[serde(default)]
    abandon: Share,
    #[serde(default)]
    dead_letter: Share,
    pub defer: Option<toml::Spanned<Share>>,
    #[serde(default)]
    lapse: Share,
    pub renew: Option<toml::Spanned<Time>>,
    pub sessions: Option<toml::Spanned<bool>>,
    #[serde(default, deserialize_with = "some")]
    session_idle: Option<Time>,
}

const SESSION_IDLE: Duration = Duration::from_secs(1);

fn one() -> toml::Spanned<u32> {
    toml::Spanned::new(0..0, 1)
}

fn window() -> toml::Spanned<u32> {
    toml::Spanned::new(0..0, 256)
}

fn kibibyte() -> toml::Spanned<BodyText> {
    toml::Spanned::new(0..0, BodyText::Drawn(Sizes::fixed(1024)))
}

fn share(of: Option<toml::Spanned<Share>>) -> Share {
    of.map(toml::Spanned::into_inner).unwrap_or_default()
}

fn some<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Time>, D::Error> {
    match Time::deserialize(from)? {
        Time(Duration::ZERO) => Err(de::Error::custom("it must be more than 0s")),
        time => Ok(Some(time)),
    }
}

impl ProducersText {
    /// How long its profile is, as written.
    pub fn profile(&self) -> Option<Duration> {
        self.rate.as_ref().and_then(Rate::lasts)
    }

    /// `factor`: by how much all takes longer than written; `warm_up`: before a profile begins.
    pub fn read(self, factor: f64, warm_up: Duration, body: Bodies) -> Producers {
        let pacing = match self.rate {
            None => Pacing::Closed,
            Some(rate) => Pacing::Open(rate.scaled(factor).begun_before(warm_up)),
        };
        Producers {
            to: self.to.into_inner(),
            count: self.count.into_inner(),
            pacing,
            window: self.window.into_inner() as usize,
            batch: self.batch.into_inner() as usize,
            body,
            ttl: self.ttl,
            schedule: self.schedule.map(toml::Spanned::into_inner),
            cancel: share(self.cancel),
            transaction: self.transaction.map(|count| count.into_inner() as usize),
            roll_back: share(self.roll_back),
            message_id: self.message_id,
            session_id: self.session_id,
            subject: self.subject,
            properties: self.properties,
        }
    }
}

impl ConsumersText {
    /// What is not completed, all together.
    pub fn not_completed(&self) -> f64 {
        let defer = self.defer.as_ref().map_or(0.0, |of| of.get_ref().0);
        self.abandon.0 + self.dead_letter.0 + defer + self.lapse.0
    }

    pub fn read(self) -> Consumers {
        Consumers {
            from: self.from.into_inner(),
            count: self.count.into_inner(),
            mode: self.mode,
            prefetch: self.prefetch.into_inner(),
            work: self.work,
            at_a_time: self.at_a_time.into_inner() as usize,
            abandon: self.abandon,
            dead_letter: self.dead_letter,
            defer: share(self.defer),
            lapse: self.lapse,
            renew: self.renew.map(|time| time.into_inner().0),
            sessions: self.sessions.is_some_and(toml::Spanned::into_inner),
            session_idle: self.session_idle.map_or(SESSION_IDLE, |time| time.0),
        }
    }
}
