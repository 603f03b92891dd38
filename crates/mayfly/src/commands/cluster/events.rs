//! `mayfly cluster events`: what changed, and what changes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use client::{Client, Error, v1};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::connect::Connect;
use crate::input::instant::{self, Instant};
use crate::terminal;

const LOOK: Duration = Duration::from_millis(500);
const AWAY: &str = "node.away";
const BACK: &str = "node.back";

const EXAMPLES: &str = "\
Examples:
  mayfly cluster events                            of the last hour
  mayfly cluster events --since 10m --follow       and what comes, until Ctrl-C
  mayfly cluster events --json | jq -r 'select(.kind == \"entity.delete\") | .text'

Each node keeps the last 4,096 changes since it was started, in memory. Who did what for months is in
the audit trail, if that is switched on.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct EventsArgs {
    /// From then on: a time, or so long ago
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = Instant::parse)]
    since: Instant,
    /// Go on with what comes, until Ctrl-C
    #[arg(short, long)]
    follow: bool,
    /// As JSON, one event a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: Connect,
}

pub async fn run(args: EventsArgs) -> anyhow::Result<()> {
    let client = args.connect.client()?;
    let now_ms = u64::try_from(Timestamp::now().as_millisecond()).unwrap_or(0);
    let mut teller = Teller { json: args.json, ..Teller::default() };
    let mut reader = Reader { since_ms: args.since.ago(now_ms), cursors: Vec::new() };
    teller.tell(&reader.read(&client).await?)?;
    if !args.follow {
        return Ok(());
    }
    let interrupted = tokio::signal::ctrl_c();
    tokio::pin!(interrupted);
    loop {
        let read = async {
            sleep(LOOK).await;
            reader.read(&client).await
        };
        let read = tokio::select! {
            ended = &mut interrupted => return Ok(ended?),
            read = read => read,
        };
        match read {
            Ok(read) => teller.tell(&read)?,
            Err(error @ Error::Refused(_)) => return Err(error.into()),
            Err(error) => terminal::note(&format!("not known at present: {error}")),
        }
    }
}

/// All that is kept since then, each as `--json` has it, and who did not tell.
pub async fn events_since(
    client: &Client,
    since_ms: u64,
) -> Result<(Vec<Value>, Vec<v1::UntoldNode>), Error> {
    let mut reader = Reader { since_ms, cursors: Vec::new() };
    let read = reader.read(client).await?;
    Ok((read.events.iter().map(as_json).collect(), read.untold))
}

/// Where it was with each node.
struct Reader {
    since_ms: u64,
    cursors: Vec<v1::EventCursor>,
}

impl Reader {
    /// All that was told meanwhile.
    async fn read(&mut self, client: &Client) -> Result<v1::ListEventsResponse, Error> {
        let mut all = v1::ListEventsResponse::default();
        loop {
            let page = client.events(self.since_ms, self.cursors.clone()).await?;
            self.cursors = page.cursors;
            all.events.extend(page.events);
            all.lost.extend(page.lost);
            all.untold = page.untold;
            if !page.more {
                break;
            }
        }
        all.events.sort_by_key(|event| event.at_ms);
        Ok(all)
    }
}

/// What was told to the person, so that it is told once.
#[derive(Default)]
struct Teller {
    json: bool,
    /// Whether each node is away, as was told last: a new leader of the catalog tells it anew.
    away: BTreeMap<String, bool>,
    untold: BTreeSet<u64>,
}

impl Teller {
    fn tell(&mut self, read: &v1::ListEventsResponse) -> anyhow::Result<()> {
        for lost in &read.lost {
            let v1::LostEvents { node, count } = lost;
            terminal::note(&format!(
                "node {node} keeps {count} events no more: they came too fast"
            ));
        }
        for event in &read.events {
            if self.is_news(event) {
                match self.json {
                    true => terminal::line(serde_json::to_string(&as_json(event))?)?,
                    false => terminal::line(line(event))?,
                }
            }
        }
        for v1::UntoldNode { node, why } in &read.untold {
            if self.untold.insert(*node) {
                terminal::note(&format!("what node {node} has told is not known, {why}"));
            }
        }
        self.untold.retain(|node| read.untold.iter().any(|untold| untold.node == *node));
        Ok(())
    }

    fn is_news(&mut self, event: &v1::ClusterEvent) -> bool {
        match event.kind.as_str() {
            AWAY => self.away.insert(event.about.clone(), true) != Some(true),
            BACK => self.away.insert(event.about.clone(), false) != Some(false),
            _ => true,
        }
    }
}

fn line(event: &v1::ClusterEvent) -> String {
    let by = match event.by.as_str() {
        "" => String::new(),
        by => format!(", by {by}"),
    };
    let v1::ClusterEvent { node, kind, text, at_ms, .. } = event;
    format!("{}  node {node}  {kind:<20}  {text}{by}", instant::show_ms(*at_ms))
}

fn as_json(event: &v1::ClusterEvent) -> Value {
    json!({
        "at": instant::show_ms(event.at_ms),
        "node": event.node,
        "kind": event.kind,
        "about": event.about,
        "text": event.text,
        "by": event.by,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn that_a_node_is_away_is_news_once() {
        let event = |kind: &str, about: &str| v1::ClusterEvent {
            kind: kind.to_owned(),
            about: about.to_owned(),
            ..Default::default()
        };
        let mut teller = Teller::default();
        for (kind, about, is_news) in [
            (AWAY, "node 2", true),
            (AWAY, "node 2", false),
            (AWAY, "node 3", true),
            ("entity.create", "q", true),
            ("entity.create", "q", true),
            (BACK, "node 2", true),
            (BACK, "node 2", false),
            (AWAY, "node 2", true),
        ] {
            assert_eq!(teller.is_news(&event(kind, about)), is_news, "{kind} {about}");
        }
    }

    #[test]
    fn a_line_says_when_where_what_and_by_whom() {
        let event = v1::ClusterEvent {
            node: 2,
            at_ms: 1_517_363_399_650,
            kind: "entity.create".to_owned(),
            about: "q".to_owned(),
            text: "'q' is created".to_owned(),
            by: "key 'k'".to_owned(),
        };
        let expected =
            "2018-01-31T01:49:59.650Z  node 2  entity.create         'q' is created, by key 'k'";
        assert_eq!(line(&event), expected);
        let by_nobody = v1::ClusterEvent { by: String::new(), ..event };
        assert!(line(&by_nobody).ends_with("'q' is created"));
    }
}
