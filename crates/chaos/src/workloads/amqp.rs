//! A receiver over AMQP: one connection with one link, as an application would have it.

use std::time::Duration;

use amqp_client::{Client, Error, Options};
use amqp_protocol::Limits;
use amqp_protocol::codec::{
    self, AnyTarget, Attach, Control, Coordinator, Declare, Declared, DeliveryState, Discharge,
    Map, Modified, Outcome, Value, descriptor,
};
use amqp_protocol::engine::{Delivery, Event, LinkId, Mechanism};
use amqp_protocol::message::{Message, MessageBuilder};
use bytes::Bytes;
use client::v1;

use crate::cluster::AmqpEntries;
use crate::history::{Answer, Delivered, How};

/// Every answer takes no longer.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// After a goodbye, at most so long, the connection is kept.
const LINGER: Duration = Duration::from_millis(50);
/// Of a login that was refused.
const UNAUTHORIZED: &str = "amqp:unauthorized-access";
const SESSION_FILTER: &str = "com.microsoft:session-filter";
/// From the year 1 to the Unix epoch, and how many of them a millisecond has.
const EPOCH_TICKS: i64 = 621_355_968_000_000_000;
const MS_TICKS: i64 = 10_000;

/// How the end of a link comes about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkEnd {
    Detach,
    DetachWithError,
    /// Of the AMQP session it is in.
    End,
    EndWithError,
    /// Of the connection.
    Close,
    CloseWithError,
    /// The socket goes, without a word.
    Drop,
}

impl LinkEnd {
    pub const ALL: [LinkEnd; 7] = [
        LinkEnd::Detach,
        LinkEnd::DetachWithError,
        LinkEnd::End,
        LinkEnd::EndWithError,
        LinkEnd::Close,
        LinkEnd::CloseWithError,
        LinkEnd::Drop,
    ];
}

/// See the file's head.
pub struct AmqpReceiver {
    client: Client,
    link: LinkId,
    coordinator: Option<LinkId>,
}

/// A session that a receiver was granted (SESS-8).
pub struct Granted {
    pub session: String,
    pub until_ms: u64,
}

impl AmqpReceiver {
    /// Of a queue; `session_wait`: of its next session that is free, for which it waits so long. What it is
    /// refused with, by ERR's name.
    pub async fn open(
        entries: &AmqpEntries,
        which: usize,
        queue: &str,
        session_wait: Option<Duration>,
    ) -> Result<Result<(AmqpReceiver, Option<Granted>), String>, Error> {
        let address = &entries.addresses[which % entries.addresses.len()];
        let options = Options {
            container_id: "mayfly-chaos".to_owned(),
            hostname: Some("localhost".to_owned()),
            login: match &entries.login {
                Some(login) => Mechanism::plain(&login.name, &login.value()),
                None => Mechanism::Anonymous,
            },
            answer_within: ANSWER_WITHIN,
            ..Options::default()
        };
        let mut client = match Client::connect(address, options).await {
            Err(Error::Ended(Some(refused))) if refused.condition.as_str() == UNAUTHORIZED => {
                return Ok(Err(name_of(&refused)));
            }
            connected => connected?,
        };
        let mut attach = Attach::receiver(&client.link_name(), queue);
        if let Some(wait) = session_wait {
            let filter = Map::default().symbol(SESSION_FILTER, Value::Null);
            attach.source.get_or_insert_default().filter = Some(filter);
            let wait_ms = Value::Uint(wait.as_millis() as u32);
            attach.properties = Some(Map::default().symbol("com.microsoft:timeout", wait_ms));
        }
        Ok(match client.attach(attach).await? {
            Ok((link, answer)) => {
                let granted = session_wait.and_then(|_| granted(&answer));
                Ok((AmqpReceiver { client, link, coordinator: None }, granted))
            }
            Err(refused) => Err(name_of(&refused)),
        })
    }

    pub async fn grant(&mut self, count: u32) -> Result<(), Error> {
        self.client.grant(self.link, count).await
    }

    /// The next message, if one comes in time.
    pub async fn receive(&mut self, wait: Duration) -> Result<Option<Delivery>, Error> {
        match tokio::time::timeout(wait, self.client.receive(self.link)).await {
            Ok(delivery) => delivery.map(Some),
            Err(_) => Ok(None),
        }
    }

    /// Gives a verdict and waits for the answer to it.
    pub async fn settle(&mut self, delivery: &Delivery, how: &How) -> Answer {
        match self.client.settle(delivery, DeliveryState::Outcome(outcome(how))).await {
            Ok(state) => answer(&state),
            Err(_) => Answer::Perhaps,
        }
    }

    /// Gives a verdict that goes out with whatever is said next.
    pub fn settle_later(&mut self, delivery: &Delivery, how: &How) {
        // What is lost with its connection nobody hears.
        let _ = self.client.engine().propose(delivery.id, DeliveryState::Outcome(outcome(how)));
    }

    /// COORD-2.
    pub async fn declare(&mut self) -> Result<Option<Bytes>, Error> {
        let control = match self.coordinator {
            Some(control) => control,
            None => {
                let mut attach = Attach::sender(&self.client.link_name(), "");
                attach.target = Some(AnyTarget::Coordinator(Coordinator::default()));
                let Ok((control, _)) = self.client.attach(attach).await? else { return Ok(None) };
                *self.coordinator.insert(control)
            }
        };
        let declare = body(&Control::Declare(Declare::default()));
        Ok(match self.client.send(control, 0, declare).await? {
            DeliveryState::Declared(Declared { txn_id }) => Some(txn_id),
            _ => None,
        })
    }

    /// COORD-6: whether a verdict is part of the transaction now. It must not be settled by that.
    pub async fn settle_within(
        &mut self,
        delivery: &Delivery,
        how: &How,
        txn_id: &Bytes,
    ) -> Result<Provisional, Error> {
        let id = delivery.id;
        let outcome = Some(outcome(how));
        let state = DeliveryState::Transactional { txn_id: txn_id.clone(), outcome };
        self.client.engine().propose(id, state)?;
        let is_answer = |event: &Event| match event {
            Event::Settled { id: of, .. } | Event::Answered { id: of, .. } => *of == id,
            _ => false,
        };
        Ok(match self.client.wait(is_answer, "an answer to a verdict").await? {
            Event::Answered { state: Some(DeliveryState::Transactional { .. }), .. } => {
                Provisional::Taken
            }
            Event::Answered { .. } => Provisional::Refused,
            _ => Provisional::Settled,
        })
    }

    /// COORD-3: commits, or with `fail` rolls back.
    pub async fn discharge(&mut self, txn_id: &Bytes, fail: bool) -> Answer {
        let Some(control) = self.coordinator else { return Answer::NotDone };
        let discharge = Discharge { txn_id: txn_id.clone(), fail };
        match self.client.send(control, 0, body(&Control::Discharge(discharge))).await {
            Ok(state) => answer(&state),
            Err(_) => Answer::Perhaps,
        }
    }

    /// Whether the goodbye was said.
    pub async fn end(mut self, how: LinkEnd) -> bool {
        let (link, session) = (self.link, self.client.session());
        let error = || Some(codec::Error::new("amqp:internal-error", "a client that failed"));
        let engine = self.client.engine();
        let asked = match how {
            LinkEnd::Detach => engine.detach(link, None),
            LinkEnd::DetachWithError => engine.detach(link, error()),
            LinkEnd::End => engine.end(session, None),
            LinkEnd::EndWithError => engine.end(session, error()),
            LinkEnd::Close => {
                engine.close(None);
                Ok(())
            }
            LinkEnd::CloseWithError => {
                engine.close(error());
                Ok(())
            }
            LinkEnd::Drop => return false,
        };
        if asked.is_err() || self.client.flush().await.is_err() {
            return false;
        }
        // Else every goodbye would come together with the end of the socket.
        let _ = tokio::time::timeout(LINGER, self.client.turn()).await;
        true
    }
}

/// What a verdict in a transaction comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provisional {
    Taken,
    Refused,
    /// Before the discharge: COORD-6 is broken.
    Settled,
}

fn body(control: &Control) -> Bytes {
    MessageBuilder::default().section(descriptor::AMQP_VALUE, control).build()
}

fn granted(attach: &Attach) -> Option<Granted> {
    let filter = attach.source.as_ref()?.filter.as_ref()?;
    let session = filter.get(SESSION_FILTER)?.as_str()?.to_owned();
    let ticks = attach.properties.as_ref()?.get("com.microsoft:locked-until-utc")?.as_i64()?;
    let until_ms = u64::try_from((ticks - EPOCH_TICKS) / MS_TICKS).ok()?;
    Some(Granted { session, until_ms })
}

fn outcome(how: &How) -> Outcome {
    match how {
        How::Complete => Outcome::Accepted,
        How::Abandon => Outcome::Modified(Modified::default()),
        How::Defer => {
            let undeliverable_here = Some(true);
            Outcome::Modified(Modified { undeliverable_here, ..Modified::default() })
        }
        How::Release => Outcome::Released,
        How::DeadLetter(reason) => {
            let reason = Value::String(reason.as_str().into());
            let info = Map::default().symbol("DeadLetterReason", reason);
            let error = codec::Error::new("com.microsoft:dead-letter", "");
            Outcome::Rejected(Some(codec::Error { info: Some(info), ..error }))
        }
    }
}

/// SETTLE-5, SETTLE-6.
fn answer(state: &DeliveryState) -> Answer {
    match state {
        DeliveryState::Outcome(Outcome::Rejected(Some(error))) => match name_of(error) {
            // COND-2: perhaps done, and certainly not.
            name if name == "com.microsoft:timeout" => Answer::Perhaps,
            name if name == "com.microsoft:server-busy" => Answer::NotDone,
            name => Answer::Refused(name),
        },
        _ => Answer::Done,
    }
}

/// ERR's name of a condition, where the checker looks for it.
fn name_of(error: &codec::Error) -> String {
    match &*error.condition {
        "com.microsoft:message-lock-lost" => "MessageLockLost".to_owned(),
        "com.microsoft:session-lock-lost" => "SessionLockLost".to_owned(),
        condition => condition.to_owned(),
    }
}

/// As the checker knows a delivery. Under a session, until the end of its lock, `until_ms`.
pub fn delivered(entity: &str, delivery: &Delivery, until_ms: Option<u64>) -> Option<Delivered> {
    let limits = Limits::default();
    let message = Message::parse(delivery.payload.clone().ok()?, &limits).ok()?;
    let annotations = message.message_annotations(&limits).ok()?;
    let instant = |name: &str| match annotations.get(name) {
        Some(Value::Timestamp(ms)) => u64::try_from(*ms).ok(),
        _ => None,
    };
    let id = message.properties(&limits).ok()?.message_id?.as_str()?.to_owned();
    let is_own = message.body().ends_with(id.as_bytes());
    let failed = message.header(&limits).ok()?.delivery_count.unwrap_or_default();
    Some(Delivered {
        entity: entity.to_owned(),
        // Nobody sent another.
        id: if is_own { id } else { format!("{id} with the body of another") },
        number: annotations.get("x-opt-sequence-number")?.as_i64()? as u64,
        count: failed + 1,
        token: token(delivery).iter().map(|byte| format!("{byte:02x}")).collect(),
        enqueued_ms: instant("x-opt-enqueued-time")?,
        locked_until_ms: until_ms.or_else(|| instant("x-opt-locked-until"))?,
        ..Delivered::default()
    })
}

/// SETTLE-2: .NET keeps the first three fields of a GUID with their last byte first.
fn token(delivery: &Delivery) -> Vec<u8> {
    let mut token = delivery.tag.as_bytes().to_vec();
    if token.len() == 16 {
        token[..4].reverse();
        token[4..6].reverse();
        token[6..8].reverse();
    }
    token
}

/// As the native client settles it, by its token (LOCK-17).
pub fn native(delivery: &Delivery) -> client::Delivery {
    let lock_token = Some(token(delivery).into());
    v1::ReceivedMessage { lock_token, ..v1::ReceivedMessage::default() }.into()
}
