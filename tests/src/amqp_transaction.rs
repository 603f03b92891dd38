//! Transactions of an AMQP client (COORD): a control link, and what is done within one of them.

use amqp_protocol::codec::{
    AnyTarget, Attach, Control, Coordinator, Declare, Declared, DeliveryState, Discharge, Outcome,
    descriptor,
};
use amqp_protocol::engine::{Delivery, Event, LinkId};
use amqp_protocol::message::MessageBuilder;
use anyhow::bail;
use bytes::Bytes;

use crate::AmqpClient;

/// A control link.
pub struct AmqpCoordinator(LinkId);

/// What a verdict was answered.
#[derive(Debug, PartialEq)]
pub struct AmqpVerdict {
    pub settled: bool,
    pub state: Option<DeliveryState>,
}

impl AmqpCoordinator {
    pub async fn attach(client: &mut AmqpClient) -> anyhow::Result<AmqpCoordinator> {
        let mut attach = Attach::sender(&client.link_name(), "");
        attach.target = Some(AnyTarget::Coordinator(Coordinator::default()));
        match client.attach(attach).await? {
            Ok((link, _)) => Ok(AmqpCoordinator(link)),
            Err(error) => bail!("no control link: {error:?}"),
        }
    }

    pub fn link(&self) -> LinkId {
        self.0
    }

    pub async fn declare(&self, client: &mut AmqpClient) -> anyhow::Result<Bytes> {
        let state = client.send(self.0, 0, body(&Control::Declare(Declare::default()))).await?;
        match state {
            DeliveryState::Declared(Declared { txn_id }) => Ok(txn_id),
            other => bail!("not declared: {other:?}"),
        }
    }

    /// Commits, or with `fail` rolls back; what that was answered.
    pub async fn discharge(
        &self,
        client: &mut AmqpClient,
        txn_id: &Bytes,
        fail: bool,
    ) -> anyhow::Result<DeliveryState> {
        let discharge = Discharge { txn_id: txn_id.clone(), fail };
        Ok(client.send(self.0, 0, body(&Control::Discharge(discharge))).await?)
    }
}

fn body(control: &Control) -> Bytes {
    MessageBuilder::default().section(descriptor::AMQP_VALUE, control).build()
}

impl AmqpClient {
    /// Sends within a transaction; the condition it is refused with, if it is.
    pub async fn send_within(
        &mut self,
        link: LinkId,
        payload: Bytes,
        txn_id: &Bytes,
    ) -> anyhow::Result<Option<String>> {
        let state = within(txn_id, None);
        match self.send_in(link, 0, payload, Some(state)).await? {
            DeliveryState::Transactional { txn_id: id, outcome: Some(Outcome::Accepted) }
                if id == *txn_id =>
            {
                Ok(None)
            }
            other => refusal(&other).map(Some),
        }
    }

    /// Gives a verdict within a transaction, and waits for the answer to it.
    pub async fn settle_within(
        &mut self,
        delivery: &Delivery,
        outcome: Outcome,
        txn_id: &Bytes,
    ) -> anyhow::Result<AmqpVerdict> {
        let id = delivery.id;
        self.engine().propose(id, within(txn_id, Some(outcome)))?;
        let is_answer = |event: &Event| match event {
            Event::Settled { id: of, .. } | Event::Answered { id: of, .. } => *of == id,
            _ => false,
        };
        match self.wait(is_answer, "an answer to a verdict").await? {
            Event::Settled { state, .. } => Ok(AmqpVerdict { settled: true, state }),
            Event::Answered { state, .. } => Ok(AmqpVerdict { settled: false, state }),
            other => bail!("no answer: {other:?}"),
        }
    }
}

/// The state of what is done within a transaction.
pub fn within(txn_id: &Bytes, outcome: Option<Outcome>) -> DeliveryState {
    DeliveryState::Transactional { txn_id: txn_id.clone(), outcome }
}

/// The condition of a refusal.
pub fn refusal(state: &DeliveryState) -> anyhow::Result<String> {
    match state {
        DeliveryState::Outcome(Outcome::Rejected(Some(error))) => Ok(error.condition.to_string()),
        other => bail!("not refused: {other:?}"),
    }
}
