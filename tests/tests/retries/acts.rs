//! What a client may ask for, each thing by itself: prepared by a client whose wire is whole, done
//! by one whose wire is not, and looked at by the first.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use client::v1::{QueueCounters, QueueProperties, ReceiveMode, SettleFailure};
use client::{Client, Delivery, Disposition, Error, Message, QueuePath};

/// The shortest there is (LOCK-3): what was lost with its lock comes back after it.
const LOCK: Duration = Duration::from_secs(5);
const RECEIVE_WAIT: Duration = Duration::from_secs(5);
/// Far enough that nothing scheduled then becomes due.
const FAR_MS: u64 = 4_000_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Send,
    SendBatch,
    Schedule,
    CancelScheduled,
    Receive,
    ReceiveAndDelete,
    ReceiveDeferred,
    Complete,
    Abandon,
    Defer,
    DeadLetter,
    Renew,
    Create,
    Update,
    Delete,
}

impl Act {
    pub const ALL: [Act; 15] = [
        Act::Send,
        Act::SendBatch,
        Act::Schedule,
        Act::CancelScheduled,
        Act::Receive,
        Act::ReceiveAndDelete,
        Act::ReceiveDeferred,
        Act::Complete,
        Act::Abandon,
        Act::Defer,
        Act::DeadLetter,
        Act::Renew,
        Act::Create,
        Act::Update,
        Act::Delete,
    ];

    /// No (producer, serial) goes with it, so a lost answer leaves the client in doubt, and it says
    /// so. All others end in the outcome of the first attempt.
    fn may_end_in_doubt(self) -> bool {
        matches!(self, Act::ReceiveAndDelete | Act::ReceiveDeferred | Act::Delete)
    }
}

/// A queue of its own for one act, and what has to be true of it.
pub struct Stage {
    act: Act,
    calm: Client,
    path: QueuePath,
    rounds: u64,
    doubts: u64,
    /// The number the next message gets.
    next_number: u64,
    /// Failed deliveries seen.
    failed: u64,
    taken: BTreeSet<String>,
    wanted: Wanted,
}

/// What the counters must show, where it is certain.
#[derive(Default)]
struct Wanted {
    accepted: u64,
    completed: u64,
    cancelled: u64,
    scheduled: u64,
    deferred: u64,
    dead_lettered: u64,
}

impl Stage {
    pub async fn set(act: Act, tag: &str, calm: Client) -> anyhow::Result<Stage> {
        let path = QueuePath::main(format!("{act:?}-{tag}"));
        let lock_duration_ms = Some(LOCK.as_millis() as u64);
        let properties = QueueProperties {
            lock_duration_ms,
            max_delivery_count: Some(100),
            ..Default::default()
        };
        calm.create_queue(&path.queue, properties).await?;
        let (taken, wanted) = Default::default();
        let stage = Stage {
            act,
            calm,
            path,
            rounds: 0,
            doubts: 0,
            next_number: 1,
            failed: 0,
            taken,
            wanted,
        };
        Ok(stage)
    }

    /// The act, once, by a client whose wire may break.
    pub async fn play(&mut self, victim: &Client) -> anyhow::Result<()> {
        self.rounds += 1;
        let round = self.rounds;
        let result = match self.act {
            Act::Send => self.send(victim, 1, None).await,
            Act::SendBatch => self.send(victim, 3, None).await,
            Act::Schedule => self.send(victim, 1, Some(FAR_MS)).await,
            Act::CancelScheduled => self.cancel(victim).await,
            Act::Receive => self.receive(victim, ReceiveMode::PeekLock).await,
            Act::ReceiveAndDelete => self.receive(victim, ReceiveMode::ReceiveAndDelete).await,
            Act::ReceiveDeferred => self.receive_deferred(victim).await,
            Act::Complete => self.settle(victim, Disposition::Complete).await,
            Act::Abandon => self.settle(victim, Disposition::Abandon).await,
            Act::Defer => self.settle(victim, Disposition::Defer).await,
            Act::DeadLetter => {
                let (reason, description) = (Some("why".to_owned()), None);
                self.settle(victim, Disposition::DeadLetter { reason, description }).await
            }
            Act::Renew => self.renew(victim).await,
            Act::Create => self.create(victim).await,
            Act::Update => self.update(victim).await,
            Act::Delete => self.delete(victim).await,
        };
        match result {
            Err(error) if self.act.may_end_in_doubt() && is_doubt(&error) => {
                self.doubts += 1;
                Ok(())
            }
            result => result.with_context(|| format!("{:?}, round {round}", self.act)),
        }
    }

    fn message(&self, part: u64) -> Message {
        let id = format!("{}-{part}", self.rounds);
        Message::new(format!("body of {id}")).message_id(id)
    }

    /// Numbers of messages sent now, if each is stored once.
    fn expect(&mut self, count: u64) -> Vec<u64> {
        self.wanted.accepted += count;
        self.next_number += count;
        (self.next_number - count..self.next_number).collect()
    }

    async fn send(&mut self, by: &Client, count: u64, at_ms: Option<u64>) -> anyhow::Result<()> {
        let message = |part| match at_ms {
            Some(at_ms) => self.message(part).scheduled_at_ms(at_ms),
            None => self.message(part),
        };
        let messages = (0..count).map(message).collect();
        let numbers = by.send(&self.path.queue, messages).await?;
        let expected = self.expect(count);
        ensure!(numbers == expected, "got {numbers:?}, not {expected:?}");
        self.wanted.scheduled += at_ms.map_or(0, |_| count);
        let stored = self.calm.peek(&self.path, expected[0], count as u32).await?;
        let bodies: Vec<&[u8]> = stored.iter().map(|message| message.body().as_ref()).collect();
        let sent: Vec<_> = (0..count).map(|part| self.message(part).into_wire().body).collect();
        ensure!(bodies == sent, "stored {stored:?}");
        Ok(())
    }

    async fn cancel(&mut self, victim: &Client) -> anyhow::Result<()> {
        let calm = self.calm.clone();
        self.send(&calm, 1, Some(FAR_MS)).await?;
        victim.cancel_scheduled(&self.path.queue, vec![self.next_number - 1]).await?;
        self.wanted.scheduled -= 1;
        self.wanted.cancelled += 1;
        Ok(())
    }

    async fn receive(&mut self, victim: &Client, mode: ReceiveMode) -> anyhow::Result<()> {
        let calm = self.calm.clone();
        // One may be lost with its lock on a wire that breaks, and the next attempt finds another.
        self.send(&calm, 2, None).await?;
        let mut got = victim.receive(&self.path, mode, 1, RECEIVE_WAIT).await?;
        ensure!(got.len() == 1, "got {got:?}");
        let delivery = got.remove(0);
        self.take(&delivery)?;
        match mode {
            ReceiveMode::PeekLock => self.complete(&delivery).await,
            ReceiveMode::ReceiveAndDelete => {
                self.wanted.completed += 1;
                Ok(())
            }
        }
    }

    /// Nobody gets to keep a message that another has got.
    fn take(&mut self, delivery: &Delivery) -> anyhow::Result<()> {
        let id = delivery.message_id().unwrap_or_default();
        ensure!(delivery.body() == format!("body of {id}").as_bytes(), "{delivery:?}");
        ensure!(self.taken.insert(id.to_owned()), "{id} was got twice");
        self.failed += u64::from(delivery.delivery_count()) - 1;
        Ok(())
    }

    async fn complete(&mut self, delivery: &Delivery) -> anyhow::Result<()> {
        let settlement = delivery.settlement(Disposition::Complete);
        done(self.calm.settle(&self.path, vec![settlement], false).await?)?;
        self.wanted.completed += 1;
        Ok(())
    }

    /// A message that is locked now.
    async fn locked(&mut self) -> anyhow::Result<Delivery> {
        let calm = self.calm.clone();
        self.send(&calm, 1, None).await?;
        let mut got = calm.receive(&self.path, ReceiveMode::PeekLock, 1, RECEIVE_WAIT).await?;
        ensure!(got.len() == 1, "got {got:?}");
        Ok(got.remove(0))
    }

    async fn settle(&mut self, victim: &Client, how: Disposition) -> anyhow::Result<()> {
        let delivery = self.locked().await?;
        let settlement = delivery.settlement(how.clone());
        done(victim.settle(&self.path, vec![settlement], false).await?)?;
        match how {
            Disposition::Complete => self.wanted.completed += 1,
            Disposition::Defer => self.wanted.deferred += 1,
            Disposition::DeadLetter { .. } => self.wanted.dead_lettered += 1,
            Disposition::Abandon | Disposition::Release => {
                let again = self.calm.receive(&self.path, ReceiveMode::PeekLock, 1, RECEIVE_WAIT);
                let again = again.await?;
                ensure!(again.len() == 1 && again[0].delivery_count() == 2, "LOCK-9: {again:?}");
                self.complete(&again[0]).await?;
            }
        }
        Ok(())
    }

    async fn receive_deferred(&mut self, victim: &Client) -> anyhow::Result<()> {
        let delivery = self.locked().await?;
        let settlement = delivery.settlement(Disposition::Defer);
        done(self.calm.settle(&self.path, vec![settlement], false).await?)?;
        self.wanted.deferred += 1;
        let numbers = vec![delivery.sequence_number()];
        let got = victim.receive_deferred(&self.path, ReceiveMode::PeekLock, numbers).await?;
        ensure!(got.len() == 1 && got[0].delivery_count() == 2, "DEFER-7: {got:?}");
        self.take(&got[0])?;
        self.failed -= 1; // By being deferred.
        self.wanted.deferred -= 1;
        self.complete(&got[0]).await
    }

    async fn renew(&mut self, victim: &Client) -> anyhow::Result<()> {
        let delivery = self.locked().await?;
        let until = victim.renew(&self.path, vec![delivery.lock_token()]).await?;
        let before = delivery.locked_until_ms().unwrap_or_default();
        ensure!(until.len() == 1 && until[0] >= before, "LOCK-13: {until:?}, was {before}");
        self.complete(&delivery).await
    }

    async fn create(&mut self, victim: &Client) -> anyhow::Result<()> {
        let name = format!("{}-made-{}", self.path.queue, self.rounds);
        let max_delivery_count = Some(3 + self.rounds as u32);
        let properties = QueueProperties { max_delivery_count, ..Default::default() };
        let made = victim.create_queue(&name, properties).await?;
        let found = self.calm.get_queue(&name).await?;
        ensure!(made.created_at_ms == found.created_at_ms, "{made:?}, found {found:?}");
        let count = found.properties.and_then(|properties| properties.max_delivery_count);
        ensure!(count == max_delivery_count, "{count:?}");
        Ok(())
    }

    async fn update(&mut self, victim: &Client) -> anyhow::Result<()> {
        let user_metadata = Some(self.rounds.to_string());
        let properties =
            QueueProperties { user_metadata: user_metadata.clone(), ..Default::default() };
        victim.update_queue(&self.path.queue, properties).await?;
        let found = self.calm.get_queue(&self.path.queue).await?.properties.unwrap_or_default();
        ensure!(found.user_metadata == user_metadata, "{found:?}");
        ensure!(found.lock_duration_ms == Some(LOCK.as_millis() as u64), "{found:?}");
        Ok(())
    }

    /// ENT-7, ENT-8: whatever becomes of the call, a queue created after it is left alone.
    async fn delete(&mut self, victim: &Client) -> anyhow::Result<()> {
        let name = format!("{}-victim-{}", self.path.queue, self.rounds);
        self.calm.create_queue(&name, QueueProperties::default()).await?;
        let deleted = victim.delete_queue(&name).await;
        let gone = match self.calm.get_queue(&name).await {
            Err(Error::Refused(_)) => true,
            other => {
                ensure!(deleted.is_err(), "deleted, and there: {other:?}");
                false
            }
        };
        if gone {
            self.calm.create_queue(&name, QueueProperties::default()).await?;
            self.calm.send(&name, vec![Message::new("of the second")]).await?;
            let counters = self.calm.get_queue(&name).await?.counters.unwrap_or_default();
            ensure!(counters.accepted == 1, "ENT-8: {counters:?}");
        }
        Ok(deleted?)
    }

    /// What all rounds together left.
    pub async fn audit(mut self) -> anyhow::Result<u64> {
        let act = self.act;
        self.empty().await.with_context(|| format!("{act:?}, at the end"))?;
        let found = self.counters().await?;
        let Wanted { accepted, completed, cancelled, scheduled, deferred, dead_lettered } =
            self.wanted;
        // Of receive-and-delete what was on a wire that broke is gone (LOCK-2).
        let lost = found.completed.saturating_sub(completed);
        let lost_max = if act == Act::ReceiveAndDelete { self.doubts } else { 0 };
        ensure!(lost <= lost_max, "{act:?}: {lost} lost, {} in doubt: {found:?}", self.doubts);
        let wanted = QueueCounters {
            active: 0,
            scheduled,
            deferred,
            dead_lettered,
            accepted,
            completed: completed + lost,
            cancelled,
            ..found
        };
        ensure!(found == wanted, "{act:?}: found {found:?}, wanted {wanted:?}");
        ensure!(self.failed <= self.rounds, "{act:?}: {} failed deliveries", self.failed);
        Ok(self.rounds)
    }

    async fn counters(&self) -> anyhow::Result<QueueCounters> {
        Ok(self.calm.get_queue(&self.path.queue).await?.counters.unwrap_or_default())
    }

    /// Takes out what the act left to be received, once the locks nobody knows of have lapsed.
    async fn empty(&mut self) -> anyhow::Result<()> {
        if self.act == Act::ReceiveDeferred {
            return self.empty_deferred().await;
        }
        if matches!(self.act, Act::Send | Act::SendBatch) {
            let deleted = self.calm.delete_batch(&self.path, 4000, None).await?;
            ensure!(u64::from(deleted) == self.wanted.accepted, "deleted {deleted}");
            return Ok(());
        }
        let mut waits = 0;
        while self.counters().await?.active > 0 {
            let got = self.calm.receive(&self.path, ReceiveMode::PeekLock, 100, LOCK * 2).await?;
            ensure!(!got.is_empty() || waits < 2, "the queue does not empty");
            waits += usize::from(got.is_empty());
            for delivery in got {
                self.take(&delivery)?;
                self.complete(&delivery).await?;
            }
        }
        Ok(())
    }

    async fn empty_deferred(&mut self) -> anyhow::Result<()> {
        let left = self.calm.peek(&self.path, 1, 250).await?;
        ensure!(
            left.len() as u64 == self.doubts,
            "{} deferred, {} in doubt",
            left.len(),
            self.doubts
        );
        for message in left {
            let until = std::time::Instant::now() + LOCK * 2;
            let got = loop {
                let numbers = vec![message.sequence_number()];
                match self.calm.receive_deferred(&self.path, ReceiveMode::PeekLock, numbers).await {
                    Ok(got) => break got,
                    // Locked by the call whose answer was lost.
                    Err(_) if std::time::Instant::now() < until => {
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                    Err(error) => bail!("deferred and not received: {error}"),
                }
            };
            ensure!(got.len() == 1 && got[0].delivery_count() <= 3, "DEFER-6, DEFER-7: {got:?}");
            self.take(&got[0])?;
            self.failed -= 1; // By being deferred.
            self.wanted.deferred -= 1;
            self.complete(&got[0]).await?;
        }
        Ok(())
    }
}

fn done(failures: Vec<SettleFailure>) -> anyhow::Result<()> {
    ensure!(failures.is_empty(), "not settled: {failures:?}");
    Ok(())
}

fn is_doubt(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(Error::PerhapsDone(_)))
}
