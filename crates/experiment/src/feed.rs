//! Input for programs.

use std::time::Instant as StdInstant;

use client::{Client, Message, SenderOptions, value};
use load::{Origin, Template};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::file::Sends;
use crate::flag::holds;

/// What became of one list of messages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Fed {
    pub to: String,
    pub wanted: u64,
    pub acknowledged: u64,
    /// Why one was not.
    pub last_error: Option<String>,
}

/// Messages to be sent, each at its time.
pub struct Feed {
    pub sends: Sends,
    pub client: Client,
    /// Of the file's lists, from 0.
    pub number: u32,
    pub run: u32,
    pub seed: u64,
    pub begun: StdInstant,
}

impl Feed {
    /// Until all are sent, or `over` holds.
    pub async fn run(self, mut over: watch::Receiver<bool>) -> Fed {
        let Sends { to, count, .. } = &self.sends;
        let mut fed = Fed { to: to.clone(), wanted: *count, ..Fed::default() };
        let sender = self.client.sender(to, SenderOptions::default());
        let mut random = ChaCha8Rng::seed_from_u64(self.seed.wrapping_add(u64::from(self.number)));
        let begun = Instant::from_std(self.begun) + self.sends.starts_at;
        for number in 0..*count {
            let after = self.sends.per_second.map_or(0.0, |rate| number as f64 / rate);
            let message = self.message(number, &mut random);
            let sending = async {
                tokio::time::sleep_until(begun + std::time::Duration::from_secs_f64(after)).await;
                sender.send(message).await
            };
            let sent = tokio::select! {
                sent = sending => sent,
                () = holds(&mut over) => break,
            };
            match sent {
                Ok(_) => fed.acknowledged += 1,
                Err(error) => fed.last_error = Some(error.to_string()),
            }
        }
        fed
    }

    fn message(&self, number: u64, random: &mut ChaCha8Rng) -> Message {
        let of = Origin { run: self.run, producer: self.number, number };
        let mut fill = |template: &Template| template.fill(of, random);
        let sends = &self.sends;
        let mut message = Message::new(fill(&sends.body)).message_id(fill(&sends.message_id));
        if let Some(template) = &sends.correlation_id {
            message = message.correlation_id(fill(template));
        }
        if let Some(template) = &sends.session_id {
            message = message.session_id(fill(template));
        }
        if let Some(template) = &sends.subject {
            message = message.subject(fill(template));
        }
        if let Some(path) = &sends.reply_to {
            message = message.reply_to(path.clone());
        }
        if let Some(ttl) = sends.ttl {
            message = message.ttl(ttl);
        }
        for (name, template) in &sends.properties {
            message = message.property(name.clone(), value::string(fill(template)));
        }
        message
    }
}
