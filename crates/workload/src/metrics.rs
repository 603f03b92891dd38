//! A node's `/metrics`, fetched and read: Prometheus text, no more of it than our nodes write.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

/// A node that does not answer within this is reported without figures.
const PATIENCE: Duration = Duration::from_secs(3);
/// Far above what a node with thousands of series writes.
const ANSWER_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// All samples of one look at a node.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    samples: Vec<Sample>,
}

#[derive(Clone, Debug, PartialEq)]
struct Sample {
    name: String,
    labels: Vec<(String, String)>,
    value: f64,
}

impl Metrics {
    /// Fetches from `host:port`; `None` where the node does not answer.
    pub async fn fetch(address: &str, secret: Option<&str>) -> Option<Metrics> {
        let stream = async { TcpStream::connect(address).await };
        Metrics::fetch_over(stream, address, secret).await
    }

    /// The same over a stream that is yet to be opened.
    pub(crate) async fn fetch_over<S: AsyncRead + AsyncWrite + Unpin>(
        stream: impl Future<Output = io::Result<S>>,
        host: &str,
        secret: Option<&str>,
    ) -> Option<Metrics> {
        let get = async { get(stream.await?, host, "/metrics", secret).await };
        let text = tokio::time::timeout(PATIENCE, get).await.ok()?.ok()?;
        Some(Metrics::parse(&text))
    }

    /// Lines that are no samples are passed over.
    pub fn parse(text: &str) -> Metrics {
        Metrics { samples: text.lines().filter_map(sample).collect() }
    }

    /// Sum over all labels; `None` where the node has no such metric.
    pub fn sum(&self, name: &str) -> Option<f64> {
        let mut found = self.samples.iter().filter(|sample| sample.name == name).peekable();
        found.peek()?;
        Some(found.map(|sample| sample.value).sum())
    }

    /// Greatest over all labels.
    pub fn max(&self, name: &str) -> Option<f64> {
        let found = self.samples.iter().filter(|sample| sample.name == name);
        found.map(|sample| sample.value).reduce(f64::max)
    }

    /// A histogram, over all its labels together.
    pub fn buckets(&self, name: &str) -> Buckets {
        let mut buckets = Buckets::default();
        let series = format!("{name}_bucket");
        for sample in self.samples.iter().filter(|sample| sample.name == series) {
            let bound = sample.labels.iter().find(|(label, _)| label == "le");
            if let Some(bound) = bound.and_then(|(_, bound)| bound.parse::<f64>().ok()) {
                *buckets.0.entry(Bound(bound)).or_default() += sample.value;
            }
        }
        buckets
    }
}

/// Cumulative counts by upper bound.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Buckets(BTreeMap<Bound, f64>);

/// An upper bound; the last is infinite. Ordered, for no bound is "not a number".
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bound(f64);

impl Eq for Bound {}

impl PartialOrd for Bound {
    fn partial_cmp(&self, other: &Bound) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Bound {
    fn cmp(&self, other: &Bound) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl Buckets {
    /// Adds another node's.
    pub fn add(&mut self, other: &Buckets) {
        for (bound, count) in &other.0 {
            *self.0.entry(*bound).or_default() += count;
        }
    }

    /// What was recorded since `earlier`. A node that restarted in between counts from zero again,
    /// which is then what it recorded since.
    pub fn since(&self, earlier: &Buckets) -> Buckets {
        if self.count() < earlier.count() {
            return self.clone();
        }
        let less = |(bound, count): (&Bound, &f64)| {
            (*bound, count - earlier.0.get(bound).copied().unwrap_or(0.0))
        };
        Buckets(self.0.iter().map(less).collect())
    }

    pub fn count(&self) -> f64 {
        self.0.values().copied().fold(0.0, f64::max)
    }

    /// The least bound that at least this share of the records is at or below: never better than
    /// the truth. `None` when nothing was recorded; infinite above the last finite bound.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let count = self.count();
        let wanted = count * share;
        let (bound, _) = self.0.iter().find(|(_, cumulative)| **cumulative >= wanted)?;
        (count > 0.0).then_some(bound.0)
    }
}

fn sample(line: &str) -> Option<Sample> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    let (series, value) = match line.find('{') {
        Some(_) => {
            let (series, value) = line.rsplit_once('}')?;
            (series, value)
        }
        None => line.split_once(' ')?,
    };
    let (name, labels) = match series.split_once('{') {
        Some((name, labels)) => (name, read_labels(labels)),
        None => (series, Vec::new()),
    };
    // A timestamp may follow the value.
    let value = value.split_whitespace().next()?.parse().ok()?;
    Some(Sample { name: name.to_owned(), labels, value })
}

fn read_labels(text: &str) -> Vec<(String, String)> {
    let mut labels = Vec::new();
    let mut rest = text;
    while let Some((name, quoted)) = rest.split_once("=\"") {
        let Some(end) = quoted.find('"') else { break };
        labels.push((name.trim_start_matches(',').trim().to_owned(), quoted[..end].to_owned()));
        rest = &quoted[end + 1..];
    }
    labels
}

/// One HTTP GET: an answer is all a bench needs, not a client library.
async fn get(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    host: &str,
    path: &str,
    secret: Option<&str>,
) -> io::Result<String> {
    let bearer = secret.map(|secret| format!("Authorization: Bearer {secret}\r\n"));
    let request = format!(
        "GET {path} HTTP/1.0\r\nHost: {host}\r\nConnection: close\r\n{}\r\n",
        bearer.unwrap_or_default()
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await?;
    let answer = String::from_utf8_lossy(&answer);
    match answer.split_once("\r\n\r\n") {
        Some((head, body)) if head.contains(" 200 ") => Ok(body.to_owned()),
        _ => Err(io::Error::other("not an answer with status 200")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# TYPE lag histogram
lag_bucket{group=\"1\",le=\"0.001\"} 90
lag_bucket{group=\"1\",le=\"0.01\"} 99
lag_bucket{group=\"1\",le=\"+Inf\"} 100
lag_bucket{group=\"2\",le=\"0.001\"} 100
lag_bucket{group=\"2\",le=\"0.01\"} 100
lag_bucket{group=\"2\",le=\"+Inf\"} 100
bytes 17
depth{state=\"active\",queue=\"a}b\"} 3 1700000000000
depth{state=\"scheduled\"} 4
nonsense
";

    #[test]
    fn samples_are_read_with_and_without_labels() {
        let metrics = Metrics::parse(TEXT);
        assert_eq!(metrics.sum("bytes"), Some(17.0));
        assert_eq!(metrics.sum("depth"), Some(7.0));
        assert_eq!(metrics.max("depth"), Some(4.0));
        assert_eq!(metrics.sum("absent"), None);
    }

    #[test]
    fn quantiles_are_never_better_than_the_truth() {
        let buckets = Metrics::parse(TEXT).buckets("lag");
        assert_eq!(buckets.count(), 200.0);
        assert_eq!(buckets.quantile(0.5), Some(0.001));
        assert_eq!(buckets.quantile(0.99), Some(0.01));
        assert_eq!(buckets.quantile(1.0), Some(f64::INFINITY));
        assert_eq!(Buckets::default().quantile(0.5), None);
    }

    #[test]
    fn a_difference_holds_only_what_came_since() {
        let before = Metrics::parse("lag_bucket{le=\"0.001\"} 5\nlag_bucket{le=\"+Inf\"} 10\n");
        let after = Metrics::parse("lag_bucket{le=\"0.001\"} 6\nlag_bucket{le=\"+Inf\"} 14\n");
        let since = after.buckets("lag").since(&before.buckets("lag"));
        assert_eq!((since.count(), since.quantile(0.25)), (4.0, Some(0.001)));
        let restarted = before.buckets("lag").since(&after.buckets("lag"));
        assert_eq!(restarted.count(), 10.0);
    }
}
