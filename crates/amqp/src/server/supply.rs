//! Where a receiver link's messages come from: all of a queue's, as its leader hands them out, or those
//! that the link's selector takes (SEL-6, SEL-7).

use std::future::{Future, ready};

use domain::Settlement;
use futures::future::Either;
use service::{Broker, Next, ReceiveMode, Receiver, Refusals};

use super::address::Entity;
use super::selecting_receiver::SelectingReceiver;
use crate::selection::Selection;

pub(super) enum Supply {
    All(Box<Receiver>),
    Selected(Box<SelectingReceiver>),
}

impl Supply {
    /// All messages of a queue without sessions, once its leader serves the receiver (LINK-5).
    pub async fn all(
        broker: &Broker,
        entity: &Entity,
        mode: ReceiveMode,
    ) -> service::Result<Supply> {
        let messages = broker.messages().of_connection();
        let mut receiver = messages.receiver(&entity.name, entity.sub, mode, 0).await?;
        // Whoever serves the receiver answers a drain of nothing, and who does not says why.
        receiver.drain();
        receiver.next().await?;
        Ok(Supply::All(receiver.into()))
    }

    /// Those that a selector takes, once the leader watches the queue for it.
    pub async fn selected(
        broker: &Broker,
        entity: &Entity,
        selection: Selection,
        mode: ReceiveMode,
    ) -> service::Result<Supply> {
        let selecting = SelectingReceiver::open(broker, entity, selection, mode).await?;
        Ok(Supply::Selected(selecting.into()))
    }

    /// As [`Receiver::next`].
    pub async fn next(&mut self) -> service::Result<Next> {
        match self {
            Supply::All(receiver) => receiver.next().await,
            Supply::Selected(selecting) => selecting.next().await,
        }
    }

    pub fn credit(&self) -> u32 {
        match self {
            Supply::All(receiver) => receiver.credit(),
            Supply::Selected(selecting) => selecting.credit(),
        }
    }

    pub fn add_credit(&mut self, count: u32) {
        match self {
            Supply::All(receiver) => receiver.add_credit(count),
            Supply::Selected(selecting) => selecting.add_credit(count),
        }
    }

    pub fn drain(&mut self) {
        match self {
            Supply::All(receiver) => receiver.drain(),
            Supply::Selected(selecting) => selecting.drain(),
        }
    }

    /// As [`Receiver::release_arrived`]; of selected messages none are remembered.
    pub fn release_arrived(
        &self,
    ) -> impl Future<Output = service::Result<Refusals>> + Send + 'static {
        match self {
            Supply::All(receiver) => Either::Left(receiver.release_arrived()),
            Supply::Selected(_) => Either::Right(ready(Ok(Refusals::new()))),
        }
    }

    /// As [`Receiver::settle`].
    pub fn settle(
        &self,
        settlements: Vec<Settlement>,
    ) -> impl Future<Output = service::Result<Refusals>> + Send + 'static {
        match self {
            Supply::All(receiver) => Either::Left(receiver.settle(settlements)),
            Supply::Selected(selecting) => Either::Right(selecting.settle(settlements)),
        }
    }
}
