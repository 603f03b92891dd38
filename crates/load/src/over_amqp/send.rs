//! Transfers, pipelined up to the window.

use std::collections::VecDeque;
use std::time::Instant;

use amqp_protocol::codec::Tag;
use amqp_protocol::engine::{Event, Outgoing};
use tokio::time::timeout_at;
use workload::Link;

use super::step::Steps;
use super::{AmqpTarget, broken, encode, outcome};
use crate::file::Producers;
use crate::link::{Broken, Draft, Outcome, SendLink, Ticket};

/// Sends on a connection of its own.
pub struct AmqpSend {
    link: Link,
    /// In the order they were sent, by the tags of their deliveries.
    under_way: VecDeque<(u32, Ticket)>,
    next_tag: u32,
    /// For transactions, and for what is cancelled.
    steps: Option<Steps>,
    done: Vec<(Ticket, Outcome)>,
}

impl AmqpSend {
    pub async fn open(
        target: &AmqpTarget,
        index: usize,
        spec: &Producers,
    ) -> Result<AmqpSend, Broken> {
        let to = &spec.to;
        let client = target.connect(index, to).await?;
        let attach = Link::to(&format!("load-{to}"), to);
        let link = Link::attach(client, attach).await.map_err(broken)?;
        let steps = Steps::open(target, index, spec).await?;
        let (under_way, done) = (VecDeque::new(), Vec::new());
        Ok(AmqpSend { link, under_way, next_tag: 0, steps, done })
    }

    fn answered(&mut self, tag: &Tag) -> Option<Ticket> {
        let tag = tag.as_bytes().try_into().map(u32::from_be_bytes).ok()?;
        // Answers come in about the order of what they answer.
        let at = self.under_way.iter().position(|(of, _)| *of == tag)?;
        self.under_way.remove(at).map(|(_, ticket)| ticket)
    }
}

impl SendLink for AmqpSend {
    fn has_room(&mut self) -> bool {
        self.link.room() > 0
    }

    async fn send(&mut self, mut drafts: Vec<Draft>, ticket: Ticket) -> Result<(), Broken> {
        if let Some(steps) = self.steps.as_mut().filter(|steps| steps.takes(ticket.fate)) {
            let outcome = steps.send(drafts, ticket.fate).await?;
            self.done.push((ticket, outcome));
            return Ok(());
        }
        let (message_format, payload) = match (drafts.len(), drafts.pop()) {
            (1, Some(draft)) => (0, encode::payload(draft)),
            (_, last) => {
                drafts.extend(last);
                (encode::BATCH_FORMAT, encode::batch(drafts))
            }
        };
        let tag = Tag::new(&self.next_tag.to_be_bytes()).unwrap_or_default();
        let outgoing = Outgoing { tag, message_format, settled: false, state: None, payload };
        self.link.send(&outgoing).map_err(broken)?;
        self.under_way.push_back((self.next_tag, ticket));
        self.next_tag = self.next_tag.wrapping_add(1);
        Ok(())
    }

    async fn turn(
        &mut self,
        until: Option<Instant>,
        answers: &mut Vec<(Ticket, Outcome)>,
    ) -> Result<(), Broken> {
        if let Some(steps) = &mut self.steps {
            steps.keep().await?;
        }
        let until = if self.done.is_empty() { until } else { Some(Instant::now()) };
        let turned = match until {
            None => self.link.turn().await,
            Some(until) => timeout_at(until.into(), self.link.turn()).await.unwrap_or(Ok(())),
        };
        turned.map_err(broken)?;
        answers.append(&mut self.done);
        while let Some(event) = self.link.poll().map_err(broken)? {
            let Event::Disposed { tag, state, .. } = event else { continue };
            let ticket = self.answered(&tag);
            answers.extend(ticket.map(|ticket| (ticket, outcome(state))));
        }
        Ok(())
    }

    async fn close(self) {
        self.link.close().await;
        if let Some(steps) = self.steps {
            steps.close().await;
        }
    }
}
