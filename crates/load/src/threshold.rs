//! Thresholds: what has to hold of a run's figures, and whether it does.

use std::fmt;

use definitions::duration;

/// What a latency is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    Send,
    EndToEnd,
    Settle,
    Lateness,
    Lag,
}

impl Span {
    pub const ALL: [Span; 5] =
        [Span::Send, Span::EndToEnd, Span::Settle, Span::Lateness, Span::Lag];

    /// As files and reports have it.
    pub fn name(self) -> &'static str {
        match self {
            Span::Send => "send",
            Span::EndToEnd => "end_to_end",
            Span::Settle => "settle",
            Span::Lateness => "lateness",
            Span::Lag => "lag",
        }
    }
}

/// What of a latency's distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Statistic {
    Mean,
    Max,
    /// From 0 to 1.
    Quantile(f64),
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    Sent,
    Delivered,
    Completed,
    Lost,
    Doubled,
    OutOfOrder,
    Late,
    Left,
    Expired,
    Redelivered,
    DeadLettered,
    Unsent,
    Cancelled,
    RolledBack,
    CancelledDelivered,
    RolledBackDelivered,
    Errors,
}

impl Count {
    pub const ALL: [Count; 17] = [
        Count::Sent,
        Count::Delivered,
        Count::Completed,
        Count::Lost,
        Count::Doubled,
        Count::OutOfOrder,
        Count::Late,
        Count::Left,
        Count::Expired,
        Count::Redelivered,
        Count::DeadLettered,
        Count::Unsent,
        Count::Cancelled,
        Count::RolledBack,
        Count::CancelledDelivered,
        Count::RolledBackDelivered,
        Count::Errors,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Count::Sent => "sent",
            Count::Delivered => "delivered",
            Count::Completed => "completed",
            Count::Lost => "lost",
            Count::Doubled => "doubled",
            Count::OutOfOrder => "out_of_order",
            Count::Late => "late",
            Count::Left => "left",
            Count::Expired => "expired",
            Count::Redelivered => "redelivered",
            Count::DeadLettered => "dead_lettered",
            Count::Unsent => "unsent",
            Count::Cancelled => "cancelled",
            Count::RolledBack => "rolled_back",
            Count::CancelledDelivered => "cancelled_delivered",
            Count::RolledBackDelivered => "rolled_back_delivered",
            Count::Errors => "errors",
        }
    }
}

/// A figure of a run, in the unit it is compared in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Figure {
    /// Seconds, of what was measured.
    Latency(Span, Statistic),
    /// Of the whole run.
    Count(Count),
    /// Of all that was sent, from 0 to 1.
    Share(Count),
    /// A second, of what was measured.
    Rate(Count),
    /// Sent and not delivered yet, at most.
    BacklogMax,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Less,
    AtMost,
    More,
    AtLeast,
    Equal,
    Other,
}

impl Operator {
    /// Longer signs first: one is the beginning of another.
    const SIGNS: [(&'static str, Operator); 6] = [
        ("<=", Operator::AtMost),
        (">=", Operator::AtLeast),
        ("==", Operator::Equal),
        ("!=", Operator::Other),
        ("<", Operator::Less),
        (">", Operator::More),
    ];

    fn holds(self, found: f64, told: f64) -> bool {
        match self {
            Operator::Less => found < told,
            Operator::AtMost => found <= told,
            Operator::More => found > told,
            Operator::AtLeast => found >= told,
            Operator::Equal => found == told,
            Operator::Other => found != told,
        }
    }
}

/// `end_to_end.p99 < 50ms`.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    text: String,
    pub figure: Figure,
    comparison: Operator,
    value: f64,
}

impl Threshold {
    /// Whether it holds of that figure. One that is not there holds nothing.
    pub fn holds(&self, found: Option<f64>) -> bool {
        found.is_some_and(|found| self.comparison.holds(found, self.value))
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::str::FromStr for Threshold {
    type Err = String;

    fn from_str(text: &str) -> Result<Threshold, String> {
        let found = Operator::SIGNS.iter().find_map(|(sign, comparison)| {
            text.split_once(sign).map(|(figure, value)| (figure.trim(), *comparison, value.trim()))
        });
        let (name, comparison, value) = found.ok_or_else(|| {
            format!("'{text}' compares nothing; write it like \"end_to_end.p99 < 50ms\"")
        })?;
        let (figure, value) = read(name, value)?;
        Ok(Threshold { text: text.to_owned(), figure, comparison, value })
    }
}

fn read(name: &str, value: &str) -> Result<(Figure, f64), String> {
    let number = |text: &str| {
        let number: Option<f64> =
            text.trim().parse().ok().filter(|number: &f64| number.is_finite());
        number.ok_or_else(|| format!("{name}: '{value}' is no number"))
    };
    let (of, statistic) = name.split_once('.').unwrap_or((name, ""));
    if let Some(span) = Span::ALL.into_iter().find(|span| span.name() == of) {
        let statistic = read_statistic(statistic).ok_or_else(|| {
            format!("'{name}' is no figure; of {of} there are {of}.p50 to {of}.p99.99, {of}.mean, {of}.max")
        })?;
        let seconds = match value {
            "0" => 0.0,
            _ => duration::parse(value).map_err(|told| format!("{name}: {told}"))?.as_secs_f64(),
        };
        return Ok((Figure::Latency(span, statistic), seconds));
    }
    if (of, statistic) == ("backlog", "max") {
        return Ok((Figure::BacklogMax, number(value)?));
    }
    match (Count::ALL.into_iter().find(|count| count.name() == of), statistic) {
        (Some(count @ (Count::Sent | Count::Delivered | Count::Completed)), "rate") => {
            let per_second = value.strip_suffix("/s").unwrap_or(value);
            Ok((Figure::Rate(count), number(per_second)?))
        }
        (Some(count), "") => match value.strip_suffix('%') {
            Some(percent) => Ok((Figure::Share(count), number(percent)? / 100.0)),
            None => Ok((Figure::Count(count), number(value)?)),
        },
        _ => Err(unknown(name)),
    }
}

fn read_statistic(text: &str) -> Option<Statistic> {
    match text {
        "mean" => Some(Statistic::Mean),
        "max" => Some(Statistic::Max),
        _ => {
            let percent: f64 = text.strip_prefix('p')?.parse().ok()?;
            // 99.9 is no round number of any kind.
            let share = (percent * 1e7).round() / 1e9;
            (0.0..=1.0).contains(&share).then_some(Statistic::Quantile(share))
        }
    }
}

fn unknown(name: &str) -> String {
    let spans = Span::ALL.map(|span| format!("{}.p99", span.name()));
    let counts = Count::ALL.map(|count| count.name().to_owned());
    let known: Vec<String> = spans.into_iter().chain(counts).collect();
    format!(
        "'{name}' is no figure; there are {}, sent.rate, delivered.rate, completed.rate and backlog.max",
        known.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_read_and_held() {
        for (text, figure, holds, fails) in [
            (
                "end_to_end.p99 < 50ms",
                Figure::Latency(Span::EndToEnd, Statistic::Quantile(0.99)),
                0.049,
                0.05,
            ),
            ("send.p99.9<=1s", Figure::Latency(Span::Send, Statistic::Quantile(0.999)), 1.0, 1.001),
            ("lateness.max < 2s", Figure::Latency(Span::Lateness, Statistic::Max), 1.9, 2.0),
            ("lost == 0", Figure::Count(Count::Lost), 0.0, 1.0),
            ("lost != 0", Figure::Count(Count::Lost), 1.0, 0.0),
            ("errors < 0.1%", Figure::Share(Count::Errors), 0.0009, 0.001),
            ("sent.rate >= 1000/s", Figure::Rate(Count::Sent), 1000.0, 999.9),
            ("delivered > 10", Figure::Count(Count::Delivered), 11.0, 10.0),
            ("backlog.max < 1000", Figure::BacklogMax, 999.0, 1000.0),
        ] {
            let threshold: Threshold = text.parse().expect(text);
            assert_eq!(threshold.figure, figure, "{text}");
            assert!(threshold.holds(Some(holds)) && !threshold.holds(Some(fails)), "{text}");
            assert!(!threshold.holds(None) && threshold.to_string() == text);
        }
    }

    #[test]
    fn what_is_none_is_told_with_what_there_is() {
        for (text, told) in [
            ("lost", "'lost' compares nothing; write it like"),
            (
                "end_to_end < 5ms",
                "'end_to_end' is no figure; of end_to_end there are end_to_end.p50",
            ),
            ("send.p101 < 5ms", "'send.p101' is no figure; of send there are"),
            ("send.p99 < 5", "send.p99: '5' has no unit; write 5s or 5ms"),
            ("lsot == 0", "'lsot' is no figure; there are send.p99, "),
            ("lost == x", "lost: 'x' is no number"),
            ("lost.rate < 5", "'lost.rate' is no figure"),
        ] {
            let error = text.parse::<Threshold>().expect_err(text);
            assert!(error.starts_with(told), "{text}: {error}");
        }
    }
}
