//! `list` of queues, topics and subscriptions: once, or again and again with rates.

use std::collections::HashMap;
use std::io::{self, Write};
use std::time::Duration;

use client::Client;
use jiff::{Timestamp, Unit};
use ratatui::crossterm::terminal::size;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::commands::Output;
use crate::commands::entity::{self, Entity};
use crate::commands::idle::{self, Idleness};
use crate::input::duration;
use crate::terminal;

/// How often a list is shown anew where it is not said.
const WATCH_DEFAULT: &str = "2s";
const WATCH_MIN: Duration = Duration::from_millis(100);
/// Sets the cursor to the first place, clears to the end of a line, and of the screen.
const HOME: &str = "\x1b[H";
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_REST: &str = "\x1b[J";

/// How a list is shown.
#[derive(Clone, Debug, clap::Args)]
pub struct Listing {
    /// When each was last used, what keeps it, and when it will be deleted if nobody uses it
    #[arg(long)]
    idle: bool,
    /// Show the list anew, every 2 s unless said, with messages in and out per second, until Ctrl-C
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = WATCH_DEFAULT)]
    #[arg(value_parser = every, conflicts_with_all = ["idle", "json"])]
    watch: Option<Duration>,
    #[command(flatten)]
    pub output: Output,
}

/// Seconds, or a duration with its unit.
fn every(text: &str) -> Result<Duration, String> {
    let every = match text.parse::<u32>() {
        Ok(seconds) => Ok(Duration::from_secs(seconds.into())),
        Err(_) => duration::parse(text),
    };
    let every =
        every.map_err(|_| format!("'{text}' is no number of seconds; write 5, or 500ms"))?;
    match every < WATCH_MIN {
        true => Err(format!("'{text}' is too often; write 100ms or more")),
        false => Ok(every),
    }
}

impl Listing {
    /// `list`: asks for all of them.
    pub async fn show<E: Entity>(
        self,
        list: impl AsyncFn(&Client) -> Result<Vec<E>, client::Error>,
    ) -> anyhow::Result<()> {
        let client = self.output.connect.client()?;
        let entities = list(&client).await?;
        match self.watch {
            Some(every) => watch(&client, every, entities, list).await,
            None if self.idle && !self.output.json && !entities.is_empty() => {
                idle::list(entities.iter().map(Idleness::of), client.now().await?.now_ms)
            }
            None => entity::list(&self.output, &entities),
        }
    }
}

/// Until Ctrl-C. What the cluster does not tell for a while is asked for again.
async fn watch<E: Entity>(
    client: &Client,
    every: Duration,
    first: Vec<E>,
    list: impl AsyncFn(&Client) -> Result<Vec<E>, client::Error>,
) -> anyhow::Result<()> {
    let mut looks = interval(every);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    looks.tick().await;
    let interrupted = tokio::signal::ctrl_c();
    tokio::pin!(interrupted);
    let (mut rates, mut found) = (Rates::default(), Ok(first));
    loop {
        match found {
            Ok(entities) => show(&table(&entities, &mut rates)?)?,
            Err(error @ client::Error::Refused(_)) => return Err(error.into()),
            Err(error) => show(&format!("not known at present: {error}"))?,
        }
        found = tokio::select! {
            ended = &mut interrupted => return Ok(ended?),
            found = async {
                looks.tick().await;
                list(client).await
            } => found,
        };
    }
}

/// In the place of what was there, where a person looks; else below it. With the time.
fn show(text: &str) -> anyhow::Result<()> {
    let now = Timestamp::now().round(Unit::Second).unwrap_or_else(|_| Timestamp::now());
    if !terminal::is_terminal() {
        return terminal::line(format!("{now}\n{text}\n"));
    }
    let (columns, rows) = size().unwrap_or((80, 24));
    let mut out = io::stdout().lock();
    let shown = on_screen(&format!("{now}, Ctrl-C ends\n{text}"), columns.into(), rows.into());
    out.write_all(shown.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// No more than there is room for, as a longer text would scroll.
fn on_screen(text: &str, columns: usize, rows: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let room = rows.saturating_sub(1).max(1);
    let (kept, left) = match lines.len() > room {
        true => (room - 1, lines.len() - (room - 1)),
        false => (lines.len(), 0),
    };
    let mut shown = HOME.to_owned();
    for line in &lines[..kept] {
        shown.extend(line.chars().take(columns));
        shown.push_str(CLEAR_LINE);
        shown.push('\n');
    }
    if left > 0 {
        shown.push_str(&format!("and {left} more{CLEAR_LINE}\n"));
    }
    shown + CLEAR_REST
}

fn table<E: Entity>(entities: &[E], rates: &mut Rates) -> anyhow::Result<String> {
    if entities.is_empty() {
        return Ok(format!("no {}", E::MANY));
    }
    let told = rates.look(entities, Instant::now());
    // Beside the name.
    let header: Vec<&str> = [&E::HEADER[..1], &["in/s", "out/s"], &E::HEADER[1..]]
        .into_iter()
        .flatten()
        .copied()
        .collect();
    let numbers: Vec<usize> =
        [1, 2].into_iter().chain(E::NUMBERS.iter().map(|column| column + 2)).collect();
    let rows = entities.iter().zip(told).map(|(entity, (came, went))| {
        let mut row = entity.row()?;
        row.splice(1..1, [rate(came), rate(went)]);
        Ok(row)
    });
    Ok(terminal::table(&header, &numbers, rows.collect::<anyhow::Result<_>>()?))
}

/// Nothing where it is not known yet.
fn rate(per_second: Option<f64>) -> String {
    match per_second {
        None => String::new(),
        Some(rate) if rate < 10.0 => format!("{rate:.1}"),
        Some(rate) => terminal::count(rate.round() as u64),
    }
}

/// What entities had when they were last looked at.
#[derive(Default)]
pub struct Rates {
    last: HashMap<(String, u64), Flow>,
    at: Option<Instant>,
}

/// How many messages came into an entity and went from it, since it was created; absent where that is not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    pub came: Option<u64>,
    pub went: Option<u64>,
}

impl Rates {
    /// Of each entity, in and out per second since the last look; absent for one that is new.
    pub fn look<E: Entity>(
        &mut self,
        entities: &[E],
        now: Instant,
    ) -> Vec<(Option<f64>, Option<f64>)> {
        let seconds = self.at.map(|at| now.duration_since(at).as_secs_f64());
        let seconds = seconds.filter(|seconds| *seconds > 0.0);
        let key = |entity: &E| {
            let standing = entity.standing();
            // Another of the same name counts anew.
            (standing.name, standing.created_at_ms)
        };
        let flows: Vec<_> = entities.iter().map(|entity| (key(entity), entity.flow())).collect();
        let rates = flows.iter().map(|(key, flow)| {
            let since = |now: Option<u64>, of: fn(&Flow) -> Option<u64>| {
                let before = self.last.get(key).and_then(of)?;
                // A leader that has applied less was asked: nothing came meanwhile, as far as it knows.
                Some(now?.saturating_sub(before) as f64 / seconds?)
            };
            (since(flow.came, |flow| flow.came), since(flow.went, |flow| flow.went))
        });
        let rates = rates.collect();
        (self.last, self.at) = (flows.into_iter().collect(), Some(now));
        rates
    }
}

#[cfg(test)]
mod tests {
    use client::v1;

    use super::*;

    fn queue(name: &str, created_at_ms: u64, accepted: u64, completed: u64) -> v1::Queue {
        let counters = v1::QueueCounters { accepted, completed, ..Default::default() };
        let (name, counters) = (name.to_owned(), Some(counters));
        v1::Queue { name, counters, created_at_ms, ..Default::default() }
    }

    #[test]
    fn rates_are_of_the_time_since_the_last_look() {
        let begun = Instant::now();
        let mut rates = Rates::default();
        let first = [queue("a", 1, 10, 0), queue("b", 1, 5, 5)];
        assert_eq!(rates.look(&first, begun), [(None, None), (None, None)]);
        let second = [queue("a", 1, 30, 4), queue("b", 2, 1, 0), queue("c", 1, 1, 0)];
        let told = rates.look(&second, begun + Duration::from_secs(2));
        assert_eq!(told[0], (Some(10.0), Some(2.0)));
        assert_eq!(told[1], (None, None), "it was created anew");
        assert_eq!(told[2], (None, None), "it is new");
        let behind = rates.look(&[queue("a", 1, 29, 4)], begun + Duration::from_secs(3));
        assert_eq!(behind, [(Some(0.0), Some(0.0))]);
    }

    #[test]
    fn a_table_has_rates_beside_the_names() {
        let mut rates = Rates::default();
        table(&[queue("orders", 1, 10, 0)], &mut rates).expect("a table");
        let shown = table(&[queue("orders", 1, 10, 0)], &mut rates).expect("a table");
        let mut lines = shown.lines();
        let head: Vec<&str> = lines.next().expect("a head").split_whitespace().collect();
        assert_eq!(head[..4], ["NAME", "IN/S", "OUT/S", "STATUS"]);
        let row: Vec<&str> = lines.next().expect("a row").split_whitespace().collect();
        assert_eq!(row[..4], ["orders", "0.0", "0.0", "active"]);
        assert_eq!(table::<v1::Queue>(&[], &mut rates).expect("a line"), "no queues");
    }

    #[test]
    fn what_does_not_fit_on_the_screen_is_counted() {
        let plain =
            |text: String| text.replace(HOME, "").replace(CLEAR_LINE, "").replace(CLEAR_REST, "");
        assert_eq!(plain(on_screen("ab\ncd\nef", 80, 24)), "ab\ncd\nef\n");
        assert_eq!(plain(on_screen("abc\nd\ne\nf", 2, 4)), "ab\nd\nand 2 more\n");
        assert_eq!(plain(on_screen("a\nb", 2, 0)), "and 2 more\n");
    }

    #[test]
    fn how_often_is_seconds_or_a_duration() {
        for (text, ms) in [("1", 1_000), ("5s", 5_000), ("500ms", 500)] {
            assert_eq!(every(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for wrong in ["", "often", "0", "-1", "10ms"] {
            assert!(every(wrong).is_err(), "{wrong}");
        }
    }
}
