//! A receiver of those messages only that a selector takes (SEL-6, SEL-7). It looks at a queue's messages
//! as a peek does, part by part, and asks for the ones it wants by their numbers; what it has looked at it
//! looks at again only when that has become available anew.

use std::future::Future;
use std::time::Duration;

use domain::{Disposition, MessageState, SequenceNumber, Settlement};
use futures::FutureExt;
use futures::future::BoxFuture;
use service::{Broker, Error, ErrorKind, Next, ReceiveMode, Received, Receiver, Refusals};

use super::address::Entity;
use super::unseen::{NumberSpan, Unseen};
use crate::selection::Selection;

/// Most messages of one look: what a peek shows at most.
const LOOK_MAX: u32 = 250;
/// Before a look or a selection is tried again that found no leader, or lost its answer.
const PAUSE: Duration = Duration::from_millis(100);

pub(super) struct SelectingReceiver {
    broker: Broker,
    entity: Entity,
    mode: ReceiveMode,
    selection: Selection,
    /// Is handed nothing; it is told what there may be to look at, and settles.
    watcher: Receiver,
    unseen: Unseen,
    credit: u32,
    is_draining: bool,
    step: Option<BoxFuture<'static, SelectingStep>>,
}

/// What a step under way came to.
enum SelectingStep {
    /// Of the numbers that it was about; all the messages there, up to some of them.
    Looked(NumberSpan, Result<Vec<Received>, Error>),
    /// Of the wanted numbers; whether there are some left to look at.
    Selected(Vec<SequenceNumber>, Result<(Vec<Received>, bool), Error>),
}

impl SelectingReceiver {
    /// Once the queue's leader serves it.
    pub async fn open(
        broker: &Broker,
        entity: &Entity,
        selection: Selection,
        mode: ReceiveMode,
    ) -> service::Result<SelectingReceiver> {
        let watcher = broker.messages().of_connection().watcher(&entity.name, entity.sub).await?;
        let mut selecting = SelectingReceiver {
            broker: broker.clone(),
            entity: entity.clone(),
            mode,
            selection,
            watcher,
            unseen: Unseen::default(),
            credit: 0,
            is_draining: false,
            step: None,
        };
        // The first that it is told is that anything may be there.
        let next = selecting.watcher.next().await?;
        selecting.told(&next);
        Ok(selecting)
    }

    pub fn credit(&self) -> u32 {
        self.credit
    }

    pub fn add_credit(&mut self, count: u32) {
        if count > 0 {
            self.credit = self.credit.saturating_add(count);
            self.is_draining = false;
        }
    }

    /// As [`Receiver::drain`]: all there is is looked at before.
    pub fn drain(&mut self) {
        self.is_draining = true;
    }

    pub fn settle(
        &self,
        settlements: Vec<Settlement>,
    ) -> impl Future<Output = service::Result<Refusals>> + Send + 'static {
        self.watcher.settle(settlements)
    }

    /// As [`Receiver::next`]. Cancelling it loses nothing.
    pub async fn next(&mut self) -> service::Result<Next> {
        loop {
            if self.step.is_none() {
                self.step = self.next_look();
            }
            if self.step.is_none() && self.is_draining {
                (self.is_draining, self.credit) = (false, 0);
                return Ok(Next::Drained);
            }
            let (watcher, step) = (&mut self.watcher, &mut self.step);
            let stepping = async {
                match step {
                    Some(step) => step.await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                next = watcher.next() => {
                    let next = next?;
                    self.told(&next);
                }
                step = stepping => {
                    self.step = None;
                    if let Some(messages) = self.stepped(step)? {
                        return Ok(Next::Messages(messages));
                    }
                }
            }
        }
    }

    fn told(&mut self, next: &Next) {
        if let Next::Rose { low, high } = next {
            self.unseen.add(NumberSpan { low: *low, high: *high });
        }
    }

    /// The lowest of what was not looked at yet, if a message is wanted. It counts as looked at from here
    /// on: what becomes available meanwhile is told of later.
    fn next_look(&mut self) -> Option<BoxFuture<'static, SelectingStep>> {
        if self.credit == 0 {
            return None;
        }
        let span = self.unseen.take()?;
        let (broker, Entity { name, sub }) = (self.broker.clone(), self.entity.clone());
        let look = async move {
            let count = u32::try_from(span.high.0 - span.low.0)
                .map_or(LOOK_MAX, |more| more.saturating_add(1).min(LOOK_MAX));
            let looked = broker.messages().peek(&name, sub, span.low, count, false).await;
            SelectingStep::Looked(span, pausing(looked).await)
        };
        Some(look.boxed())
    }

    fn select(&self, numbers: Vec<SequenceNumber>) -> BoxFuture<'static, SelectingStep> {
        let (broker, Entity { name, sub }) = (self.broker.clone(), self.entity.clone());
        let mode = self.mode;
        let select = async move {
            let messages = broker.messages().of_connection();
            let selected = messages.select(&name, sub, mode, numbers.clone()).await;
            SelectingStep::Selected(numbers, pausing(selected).await)
        };
        select.boxed()
    }

    fn stepped(&mut self, step: SelectingStep) -> Result<Option<Vec<Received>>, Error> {
        match step {
            SelectingStep::Looked(span, looked) => match looked {
                Ok(messages) => {
                    self.looked(span, &messages);
                    Ok(None)
                }
                Err(error) if is_passing(&error) => {
                    self.unseen.add(span);
                    Ok(None)
                }
                Err(error) => Err(error),
            },
            SelectingStep::Selected(mut numbers, selected) => match selected {
                Ok((messages, more)) => {
                    let found = |number: &SequenceNumber| {
                        messages.iter().any(|message| message.delivery.sequence == *number)
                    };
                    numbers.retain(|number| !found(number));
                    if more {
                        self.step = Some(self.select(numbers));
                    }
                    let count = u32::try_from(messages.len()).unwrap_or(u32::MAX);
                    self.credit = self.credit.saturating_sub(count);
                    Ok(Some(messages).filter(|messages| !messages.is_empty()))
                }
                // Perhaps they were given, and will be told of when their locks end.
                Err(error) if is_passing(&error) => {
                    numbers.iter().for_each(|number| self.unseen.add(NumberSpan::of(*number)));
                    Ok(None)
                }
                Err(error) => Err(error),
            },
        }
    }

    /// Selects among what was looked at, as far as credit goes. What lies behind is looked at later.
    fn looked(&mut self, span: NumberSpan, messages: &[Received]) {
        let Some(last) = messages.last() else { return };
        let mut behind = last.delivery.sequence.next();
        let within = messages.iter().filter(|message| message.delivery.sequence <= span.high);
        let mut wanted = Vec::new();
        for message in within {
            let is_available = message.delivery.state == MessageState::Active;
            if !is_available || !self.selection.takes(message) {
                continue;
            }
            if wanted.len() >= self.credit as usize {
                behind = message.delivery.sequence;
                break;
            }
            wanted.push(message.delivery.sequence);
        }
        if behind <= span.high {
            self.unseen.add(NumberSpan { low: behind, high: span.high });
        }
        if !wanted.is_empty() {
            self.step = Some(self.select(wanted));
        }
    }
}

/// What was selected and reaches nobody goes back, without counting a delivery (LOCK-20).
impl Drop for SelectingReceiver {
    fn drop(&mut self) {
        let (Some(step), ReceiveMode::PeekLock) = (self.step.take(), self.mode) else { return };
        let (broker, Entity { name, sub }) = (self.broker.clone(), self.entity.clone());
        // Where there is no runtime any more, the locks lapse.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            let SelectingStep::Selected(_, Ok((messages, _))) = step.await else { return };
            let locks = messages.iter().filter_map(|message| message.delivery.lock);
            let release = |token| Settlement { token, disposition: Disposition::Release };
            let settlements: Vec<_> = locks.map(|lock| release(lock.token)).collect();
            if !settlements.is_empty() {
                let caller = service::Caller::Edge;
                // If it fails, the locks lapse.
                drop(broker.messages().settle(&name, sub, settlements, false, caller).await);
            }
        });
    }
}

/// Whatever is tried again waits a little before.
async fn pausing<T>(result: Result<T, Error>) -> Result<T, Error> {
    if result.as_ref().is_err_and(is_passing) {
        tokio::time::sleep(PAUSE).await;
    }
    result
}

/// To look once more harms nothing, whatever came of the last time.
fn is_passing(error: &Error) -> bool {
    matches!(error.kind, ErrorKind::Unavailable { .. } | ErrorKind::Unknown { .. })
}
