//! Metrics that are pushed to a collector: what `/metrics` tells is told by OTLP, figure by figure, and a collector that
//! is away is nobody's harm.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use client::v1::{QueueProperties, ReceiveMode};
use client::{Client, Message, QueuePath};
use mayfly_tests::{Cluster, Collector, Settings, ask, attribute_value, free_ports};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{AggregationTemporality, HistogramDataPoint, Metric};
use tokio::sync::Mutex;

/// Two cores carry one cluster at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

const CUMULATIVE: i32 = AggregationTemporality::Cumulative as i32;
/// Of anything that is waited for, on a busy machine.
const WITHIN: Duration = Duration::from_secs(30);

/// Lives as long as the test process, as what a cluster is told does.
fn pushed_to(address: &str) -> Settings {
    let config =
        format!("[metrics]\notlp_endpoint = \"http://{address}\"\notlp_interval = \"1s\"\n");
    Settings { nodes: 1, config: config.leak(), ..Settings::default() }
}

/// By what a page calls a series, its value.
type Figures = BTreeMap<String, f64>;

fn scraped(cluster: &Cluster) -> anyhow::Result<(Figures, String)> {
    let page = ask(cluster.addresses(1)[1], "GET /metrics", "", "")?.body;
    let lines = page.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let figures = lines.map(|line| {
        let (series, value) = line.rsplit_once(' ').with_context(|| line.to_owned())?;
        Ok((series.to_owned(), value.parse()?))
    });
    Ok((figures.collect::<anyhow::Result<_>>()?, page))
}

/// As a page has it.
fn series(name: &str, attributes: &[KeyValue], bound: Option<&str>) -> anyhow::Result<String> {
    let mut labels = String::new();
    let keys = attributes.iter().map(|attribute| attribute.key.as_str());
    let mut label = |key: &str, value: &str| {
        let comma = if labels.is_empty() { "" } else { "," };
        let _ = write!(labels, "{comma}{key}=\"{value}\"");
    };
    for key in keys {
        label(key, &attribute_value(attributes, key).context("a value that is no text")?);
    }
    if let Some(bound) = bound {
        label("le", bound);
    }
    Ok(if labels.is_empty() { name.to_owned() } else { format!("{name}{{{labels}}}") })
}

/// What was pushed, called as a page calls it. Each metric is of the kind, the unit and the words that the page has.
fn told(metrics: &[Metric], page: &str) -> anyhow::Result<Figures> {
    let mut figures = Figures::new();
    for metric in metrics {
        let name = &metric.name;
        let kind = match metric.data.as_ref().context("no data")? {
            Data::Sum(sum) => {
                ensure!(
                    sum.is_monotonic && sum.aggregation_temporality == CUMULATIVE,
                    "{metric:?}"
                );
                let since = sum
                    .data_points
                    .iter()
                    .map(|point| (point.start_time_unix_nano, point.time_unix_nano));
                ensure!(since.clone().all(|(from, to)| from > 0 && from <= to), "{metric:?}");
                "counter"
            }
            Data::Gauge(_) => "gauge",
            Data::Histogram(histogram) => {
                ensure!(histogram.aggregation_temporality == CUMULATIVE, "{metric:?}");
                for point in &histogram.data_points {
                    of_histogram(name, point, &mut figures)?;
                }
                "histogram"
            }
            other => anyhow::bail!("{name} is {other:?}"),
        };
        ensure!(page.contains(&format!("# TYPE {name} {kind}\n")), "{name} is no {kind}");
        if let (false, false) = (metric.description.is_empty(), metric.description.contains('\\')) {
            ensure!(
                page.contains(&format!("# HELP {name} {}\n", metric.description)),
                "{metric:?}"
            );
        }
        let unit = match name.trim_end_matches("_total") {
            name if name.ends_with("_seconds") => "s",
            name if name.ends_with("_bytes") => "By",
            _ => "",
        };
        ensure!(metric.unit == unit, "{name} is in '{}'", metric.unit);
        let points = match &metric.data {
            Some(Data::Sum(sum)) => &sum.data_points,
            Some(Data::Gauge(gauge)) => &gauge.data_points,
            _ => continue,
        };
        for point in points {
            let Some(Value::AsDouble(value)) = point.value else { anyhow::bail!("{point:?}") };
            let known = figures.insert(series(name, &point.attributes, None)?, value);
            ensure!(known.is_none(), "{name} is told twice");
        }
    }
    Ok(figures)
}

fn of_histogram(
    name: &str,
    point: &HistogramDataPoint,
    figures: &mut Figures,
) -> anyhow::Result<()> {
    ensure!(point.bucket_counts.len() == point.explicit_bounds.len() + 1, "{point:?}");
    let mut below = 0;
    let bounds = point.explicit_bounds.iter().map(ToString::to_string);
    for (bound, count) in bounds.chain(["+Inf".to_owned()]).zip(&point.bucket_counts) {
        below += count;
        let series = series(&format!("{name}_bucket"), &point.attributes, Some(&bound))?;
        figures.insert(series, below as f64);
    }
    let of = |ending: &str| series(&format!("{name}{ending}"), &point.attributes, None);
    figures.insert(of("_sum")?, point.sum.context("no sum")?);
    figures.insert(of("_count")?, point.count as f64);
    Ok(())
}

async fn some_work(client: &Client) -> anyhow::Result<()> {
    let properties = QueueProperties::default();
    client.create_queue("orders", properties).await?;
    let message = || Message::new(vec![b'm'; 100]);
    client.send("orders", (0..10).map(|_| message()).collect()).await?;
    let orders = QueuePath::main("orders");
    client.receive(&orders, ReceiveMode::ReceiveAndDelete, 4, WITHIN).await?;
    // One that is late by something, for its histogram.
    client.send("orders", vec![message().ttl(Duration::from_millis(10))]).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_the_page_says_is_pushed_with_the_same_figures() -> anyhow::Result<()> {
    let _one = ONE_AT_A_TIME.lock().await;
    let collector = Collector::start(0).await?;
    let mut cluster = Cluster::start(pushed_to(&collector.address)).await?;
    some_work(&cluster.client()?).await?;
    let late = "mayfly_entity_timer_lateness_seconds_count{entity=\"orders\"}";
    let until = Instant::now() + WITHIN;
    while !scraped(&cluster)?.0.contains_key(late) {
        ensure!(Instant::now() < until, "nothing was late");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    let (before, _) = scraped(&cluster)?;
    // The next may have been written before that; the one behind it was not.
    let (pages, count) = collector.metrics_after(collector.metrics_count() + 1).await?;
    let (after, page) = scraped(&cluster)?;
    let pushed = &pages[0];
    let resource = pushed.resource.clone().unwrap_or_default().attributes;
    for (key, value) in [
        ("service.name", "mayfly"),
        ("service.instance.id", "1"),
        ("service.version", env!("CARGO_PKG_VERSION")),
    ] {
        ensure!(attribute_value(&resource, key).as_deref() == Some(value), "{resource:?}");
    }
    let metrics: Vec<Metric> =
        pushed.scope_metrics.iter().flat_map(|scope| scope.metrics.clone()).collect();
    let told = told(&metrics, &page)?;
    for (series, figure) in &told {
        ensure!(after.contains_key(series), "{series} {figure} is on no page");
    }
    let is_counted = |series: &str| {
        ["_total", "_bucket", "_count", "_sum"]
            .iter()
            .any(|ending| series.split('{').next().is_some_and(|name| name.ends_with(ending)))
    };
    // Who asks for the page is among the connections that it tells of, and takes a file.
    let is_changed_by_asking =
        |series: &str| series.starts_with("process_") || series.contains("connections");
    for (series, first) in &before {
        let figure = *told.get(series).with_context(|| format!("{series} is not pushed"))?;
        let last = after[series];
        match is_counted(series) {
            true => {
                ensure!(*first <= figure && figure <= last, "{series}: {first} {figure} {last}")
            }
            false if is_changed_by_asking(series) || *first != last => (),
            false => ensure!(figure == *first, "{series}: {first} {figure} {last}"),
        }
    }
    ensure!(told["mayfly_entity_sent_messages_total{entity=\"orders\"}"] == 11.0, "{told:?}");

    // What is told last is told as the node ends.
    let (_, count) = collector.metrics_after(count).await?;
    cluster.stop(1)?;
    ensure!(collector.metrics_count() > count, "a node ends without its last figures");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_away_is_told_of_once_and_holds_nobody_up() -> anyhow::Result<()> {
    let _one = ONE_AT_A_TIME.lock().await;
    let port = free_ports(1)?[0];
    let cluster = Cluster::start(pushed_to(&format!("127.0.0.1:{port}"))).await?;
    some_work(&cluster.client()?).await?;
    let away = "mayfly_metric_exports_total{outcome=\"away\"}";
    let until = Instant::now() + WITHIN;
    while scraped(&cluster)?.0[away] < 2.0 {
        ensure!(Instant::now() < until, "nobody misses the collector");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let collector = Collector::start(port).await?;
    let (pages, _) = collector.metrics_after(0).await?;
    let of = |name: &str| {
        let mut metrics = pages[0].scope_metrics.iter().flat_map(|scope| &scope.metrics);
        metrics.find(|metric| metric.name == name).cloned()
    };
    let sent = of("mayfly_messages_accepted_total").context("it is not told")?;
    let Some(Data::Sum(sum)) = sent.data else { anyhow::bail!("{sent:?}") };
    // Since the process started, not since somebody listens.
    ensure!(sum.data_points[0].value == Some(Value::AsDouble(11.0)), "{sum:?}");
    let log = cluster.node_log(1);
    let said = |words: &str| log.lines().filter(|line| line.contains(words)).count();
    ensure!(said("takes no metrics") == 1, "{log}");
    Ok(())
}
