//! One generator's part in a run: links first, then everybody at work, from one instant on.

use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tokio::task::JoinSet;

use super::crew::{AmqpLinks, Crew, Shared};
use crate::file::LoadFile;
use crate::ledger::Ledger;
use crate::meter::Meter;
use crate::plan::Part;
use crate::target::Target;
use crate::time_line::TimeLine;
use crate::{Error, plan};

/// Every link is open, and nothing is sent yet.
pub(crate) struct Ready {
    file: Arc<LoadFile>,
    crew: Crew,
    links: AmqpLinks,
    ledger: Arc<Ledger>,
    /// What the broker's clock showed, and when.
    clock: (Instant, u64),
}

/// Producers and consumers at work.
pub(crate) struct UnderWay {
    crew: Crew,
    pub shared: Shared,
    /// Each ends when all of its messages are sent and answered.
    pub producers: JoinSet<()>,
    pub consumers: JoinSet<()>,
}

impl Ready {
    /// # Errors
    /// [`Error::Wrong`]: the target is not there, refuses, or does not offer what the file asks for.
    pub async fn open(file: &Arc<LoadFile>, target: &Target, part: Part) -> Result<Ready, Error> {
        target.offers(file).await?;
        let ledger = Arc::new(plan::ledger(file));
        let (crew, links) = Crew::open(file, target, part, &ledger).await?;
        let clock = (Instant::now(), broker_ms(target).await?);
        Ok(Ready { file: file.clone(), crew, links, ledger, clock })
    }

    /// Starts everybody; nothing is due before `epoch`.
    pub fn begin(mut self, epoch: Instant) -> UnderWay {
        let (read_at, read_ms) = self.clock;
        let later = epoch.saturating_duration_since(read_at).as_millis();
        let shared = Shared {
            time_line: Arc::new(TimeLine::new(epoch, self.file.phases)),
            ledger: self.ledger,
            meter: Arc::new(Meter::default()),
            epoch_ms: read_ms + u64::try_from(later).unwrap_or_default(),
        };
        let consumers = self.crew.consume(&mut self.links, &shared);
        let producers = self.crew.produce(&mut self.links, &shared);
        UnderWay { crew: self.crew, shared, producers, consumers }
    }
}

impl UnderWay {
    /// Takes what was dead-lettered where the run made the place: it is missing nowhere.
    pub fn take_dead_letters(&mut self) {
        self.crew.take_dead_letters(&mut self.consumers, &self.shared);
    }
}

/// What the broker's clock shows now, milliseconds since the Unix epoch; over AMQP none is shown, and it is taken for
/// this one.
async fn broker_ms(target: &Target) -> Result<u64, Error> {
    let Target::Grpc(client) = target else { return Ok(unix_ms()) };
    let asked = Instant::now();
    let told = client.now().await.map_err(Error::of_target)?.now_ms;
    // The answer came half as long ago as it took; the instant noted is that of the question.
    Ok(told.saturating_sub(asked.elapsed().as_millis() as u64 / 2))
}

/// This machine's clock, milliseconds since the Unix epoch.
pub(crate) fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
