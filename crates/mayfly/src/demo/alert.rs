//! The alerts: a week of earthquakes, compressed to some seconds with its bursts kept.

use std::time::Duration;

use serde::Deserialize;

/// U.S. Geological Survey, public domain; see `data/README.md`.
const EVENTS: &str = include_str!("../../data/earthquakes.jsonl");

/// The poison: magnitude 6, south of Wallis and Futuna. Its handler fails every time.
pub const POISON: &str = "us1000cdn0";

/// What is no earthquake (a quarry blast, an explosion) is only a reminder: sent at once, due later.
const REMINDER_AFTER: Duration = Duration::from_secs(4);

/// One event, as it is going to be sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Alert {
    pub id: String,
    pub place: String,
    pub magnitude: Option<f64>,
    /// Who measured it.
    pub network: String,
    /// An earthquake, or what only shook the ground like one.
    pub kind: String,
    /// After the start of the replay.
    pub due: Duration,
    pub ttl: Duration,
    pub reminder_after: Option<Duration>,
    /// The event's line.
    pub body: &'static str,
}

#[derive(Deserialize)]
struct SeismicEvent {
    id: String,
    time_ms: u64,
    mag: Option<f64>,
    place: String,
    kind: String,
    net: String,
}

/// All of them in order of time, the last due at the end of the replay.
pub fn all(replay: Duration) -> Vec<Alert> {
    let events: Vec<(SeismicEvent, &str)> = EVENTS
        .lines()
        .map(|line| (serde_json::from_str(line).expect("the data is checked by a test"), line))
        .collect();
    let time =
        |index: Option<usize>| index.and_then(|i| events.get(i)).map_or(0, |(e, _)| e.time_ms);
    let (first, last) = (time(Some(0)), time(events.len().checked_sub(1)));
    let week = (last - first).max(1) as f64;
    let alert = |(event, line): &(SeismicEvent, &'static str)| Alert {
        id: event.id.clone(),
        place: event.place.clone(),
        magnitude: event.mag,
        network: event.net.clone(),
        kind: event.kind.clone(),
        due: replay.mul_f64((event.time_ms - first) as f64 / week),
        ttl: if event.id == POISON { Duration::from_secs(600) } else { ttl(event.mag) },
        reminder_after: (event.kind != "earthquake").then_some(REMINDER_AFTER),
        body: line,
    };
    events.iter().map(alert).collect()
}

/// How long an alert is worth anything: the stronger the quake, the longer.
fn ttl(magnitude: Option<f64>) -> Duration {
    Duration::from_millis(match magnitude {
        Some(magnitude) if magnitude >= 4.5 => 6000,
        Some(magnitude) if magnitude >= 2.5 => 3000,
        Some(magnitude) if magnitude >= 1.0 => 1500,
        Some(_) | None => 700,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_event_makes_an_alert() {
        let alerts = all(Duration::from_secs(25));
        assert_eq!(alerts.len(), 1707);
        let ids: BTreeSet<&str> = alerts.iter().map(|alert| alert.id.as_str()).collect();
        assert_eq!(ids.len(), 1707);
        assert!(alerts.is_sorted_by_key(|alert| alert.due));
        assert_eq!(alerts[0].due, Duration::ZERO);
        assert!(alerts[1706].due.abs_diff(Duration::from_secs(25)) < Duration::from_micros(1));
        assert_eq!(alerts.iter().filter(|alert| alert.reminder_after.is_some()).count(), 28);
        let poison = alerts.iter().find(|alert| alert.id == POISON).expect("it is there");
        assert!(poison.due < Duration::from_secs(10) && poison.reminder_after.is_none());
    }
}
