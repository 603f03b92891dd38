//! What takes more than a transfer, step by step on a connection of its own: transactions (AMQP 1.0, part 4), and
//! messages that are scheduled and cancelled (Service Bus's management).

use std::time::{Duration, Instant};

use amqp_client::{Client, Error as Lost, RequestLink};
use amqp_protocol::codec::{
    AnyTarget, Array, Attach, Control, Coordinator, Declare, Declared, DeliveryState, Discharge,
    Map, Outcome as Disposed, Value, descriptor,
};
use amqp_protocol::engine::LinkId;
use amqp_protocol::message::MessageBuilder;
use bytes::Bytes;
use tokio::time::timeout;

use super::{AmqpTarget, encode, outcome};
use crate::file::Producers;
use crate::link::{Broken, Draft, Fate, Outcome};

/// What Service Bus calls a number that nothing is scheduled under (SCHED-4).
const NOT_FOUND: i64 = 404;

/// A connection for such steps, one unit after the other.
pub(super) struct Steps {
    client: Client,
    kind: Kind,
    /// When anything was last written.
    kept_at: Instant,
}

/// A connection that nobody uses says so often that it is there; brokers wait for a minute or two.
const KEPT_EVERY: Duration = Duration::from_secs(10);

enum Kind {
    Transactions { coordinator: LinkId, sender: LinkId },
    Cancelling(RequestLink),
}

impl Steps {
    /// What such a producer needs; none of it for plain transfers.
    pub async fn open(
        target: &AmqpTarget,
        index: usize,
        spec: &Producers,
    ) -> Result<Option<Steps>, Broken> {
        if spec.transaction.is_none() && spec.cancel.0 == 0.0 {
            return Ok(None);
        }
        let mut client = target.connect(index, &spec.to).await?;
        let kind = match spec.transaction {
            Some(_) => {
                let coordinator = coordinator(&mut client).await?;
                let sender = client.sender(&spec.to).await.map_err(lost)?;
                let sender = sender.map_err(|refused| Broken(refused.condition.to_string()))?;
                Kind::Transactions { coordinator, sender }
            }
            None => {
                let management = format!("{}/$management", spec.to);
                let opened = RequestLink::open(&mut client, &management).await.map_err(lost)?;
                Kind::Cancelling(opened.map_err(|refused| Broken(refused.condition.to_string()))?)
            }
        };
        Ok(Some(Steps { client, kind, kept_at: Instant::now() }))
    }

    /// Whether messages of such a fate go this way.
    pub fn takes(&self, fate: Fate) -> bool {
        match self.kind {
            Kind::Transactions { .. } => true,
            Kind::Cancelling(_) => fate == Fate::Cancelled,
        }
    }

    /// Does all steps.
    pub async fn send(&mut self, drafts: Vec<Draft>, fate: Fate) -> Result<Outcome, Broken> {
        match &mut self.kind {
            Kind::Transactions { coordinator, sender } => {
                transact(&mut self.client, (*coordinator, *sender), drafts, fate).await
            }
            Kind::Cancelling(management) => cancel(&mut self.client, management, drafts).await,
        }
    }

    /// To be called now and then: keeps the connection while it is not used.
    pub async fn keep(&mut self) -> Result<(), Broken> {
        if self.kept_at.elapsed() < KEPT_EVERY {
            return Ok(());
        }
        self.kept_at = Instant::now();
        // What is there to write is written at the first poll, and what there is to read, read.
        timeout(Duration::ZERO, self.client.turn()).await.unwrap_or(Ok(())).map_err(lost)
    }

    pub async fn close(self) {
        self.client.close().await;
    }
}

fn lost(error: Lost) -> Broken {
    Broken(error.to_string())
}

/// A control link.
pub(super) async fn coordinator(client: &mut Client) -> Result<LinkId, Broken> {
    let mut attach = Attach::sender(&client.link_name(), "");
    attach.target = Some(AnyTarget::Coordinator(Coordinator::default()));
    match client.attach(attach).await.map_err(lost)? {
        Ok((link, _)) => Ok(link),
        Err(refused) => Err(Broken(refused.condition.to_string())),
    }
}

fn control(of: &Control) -> Bytes {
    MessageBuilder::default().section(descriptor::AMQP_VALUE, of).build()
}

/// Declares, sends one by one, and discharges.
async fn transact(
    client: &mut Client,
    (coordinator, sender): (LinkId, LinkId),
    drafts: Vec<Draft>,
    fate: Fate,
) -> Result<Outcome, Broken> {
    let declare = control(&Control::Declare(Declare::default()));
    let txn_id = match client.send(coordinator, 0, declare).await.map_err(lost)? {
        DeliveryState::Declared(Declared { txn_id }) => txn_id,
        other => return Ok(outcome(Some(other))),
    };
    let mut refused = None;
    for draft in drafts {
        let state = DeliveryState::Transactional { txn_id: txn_id.clone(), outcome: None };
        let payload = encode::payload(draft).to_bytes();
        match client.send_in(sender, 0, payload, Some(state)).await.map_err(lost)? {
            DeliveryState::Transactional { outcome: Some(Disposed::Accepted), .. } => {}
            DeliveryState::Transactional { outcome: Some(other), .. } => {
                refused = Some(outcome(Some(DeliveryState::Outcome(other))));
                break;
            }
            other => {
                refused = Some(outcome(Some(other)));
                break;
            }
        }
    }
    let fail = fate == Fate::RolledBack || refused.is_some();
    let discharge = control(&Control::Discharge(Discharge { txn_id, fail }));
    let ended = client.send(coordinator, 0, discharge).await.map_err(lost)?;
    Ok(match (refused, outcome(Some(ended))) {
        (Some(refused), Outcome::Done) => refused,
        (None, Outcome::Done) if fail => Outcome::Withdrawn,
        (_, ended) => ended,
    })
}

/// Schedules, and cancels what was scheduled.
async fn cancel(
    client: &mut Client,
    management: &mut RequestLink,
    drafts: Vec<Draft>,
) -> Result<Outcome, Broken> {
    let messages = drafts.into_iter().map(|draft| {
        let message = Value::Binary(encode::payload(draft).to_bytes());
        Value::Map(Map::default().string("message", message))
    });
    let body = Map::default().string("messages", Value::List(messages.collect()));
    let scheduled = ask(client, management, "com.microsoft:schedule-message", body).await?;
    let numbers = match scheduled {
        Ok(Value::Map(map)) => map.get("sequence-numbers").cloned(),
        Ok(_) => None,
        Err((_, why)) => return Ok(Outcome::Refused(why)),
    };
    let Some(Value::Array(numbers)) = numbers else {
        return Ok(Outcome::Unknown("a schedule without numbers".to_owned()));
    };
    let numbers = Array::longs(numbers.items().iter().filter_map(Value::as_i64));
    let body = Map::default().string("sequence-numbers", Value::Array(numbers));
    let cancelled = ask(client, management, "com.microsoft:cancel-scheduled-message", body).await?;
    Ok(match cancelled {
        Ok(_) => Outcome::Withdrawn,
        // It has come out before.
        Err((NOT_FOUND, _)) => Outcome::Done,
        Err((_, why)) => Outcome::Unknown(why),
    })
}

/// A request and its answer: the body, or the code and the condition of a refusal.
async fn ask(
    client: &mut Client,
    management: &mut RequestLink,
    operation: &str,
    body: Map,
) -> Result<Result<Value, (i64, String)>, Broken> {
    let properties = Map::default().string("operation", operation.into());
    let answer = management.ask(client, &properties, &Value::Map(body)).await.map_err(lost)?;
    let text = |name: &str| match answer.properties.get(name) {
        Some(Value::String(text)) => Some(text.to_string()),
        Some(Value::Symbol(symbol)) => Some(symbol.to_string()),
        _ => None,
    };
    let code = ["status-code", "statusCode"].iter().find_map(|name| answer.properties.get(name));
    Ok(match code.and_then(Value::as_i64) {
        Some(200..=299) => Ok(answer.body),
        code => {
            let why = ["error-condition", "errorCondition"].iter().find_map(|name| text(name));
            let code = code.unwrap_or_default();
            Err((code, why.unwrap_or_else(|| format!("status {code}"))))
        }
    })
}
