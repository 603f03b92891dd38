//! What a page says, as OTLP's metrics, by OpenTelemetry's compatibility with Prometheus ("Prometheus Metric points to
//! OTLP"): names and labels as they are, so that rules and dashboards find what they know by its name.

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, Sum,
};

use crate::attribute::text;
use crate::exposition::{Family, Kind, Label, Sample};
use crate::starts::Starts;

const CUMULATIVE: i32 = AggregationTemporality::Cumulative as i32;
/// The label that tells buckets apart.
const BOUND: &str = "le";

/// All of a page, which was of that time: nanoseconds since the Unix epoch.
pub fn metrics(families: &[Family<'_>], starts: &mut Starts, at: u64) -> Vec<Metric> {
    let of_page = families.iter().map(|family| metric(family, starts, at)).collect();
    starts.turn(at);
    of_page
}

fn metric(family: &Family<'_>, starts: &mut Starts, at: u64) -> Metric {
    let data = match family.kind {
        Kind::Counter => {
            let point = |sample: &Sample<'_>| {
                let since = starts.since(family.name, &sample.labels, sample.value);
                number(sample, since.min(at), at)
            };
            let data_points = family.samples.iter().map(point).collect();
            Data::Sum(Sum { data_points, aggregation_temporality: CUMULATIVE, is_monotonic: true })
        }
        Kind::Gauge => {
            let data_points = family.samples.iter().map(|sample| number(sample, 0, at)).collect();
            Data::Gauge(Gauge { data_points })
        }
        Kind::Histogram => {
            let point = |series: &Series<'_, '_>| {
                let since = starts.since(family.name, &series.labels, series.count);
                series.point(since.min(at), at)
            };
            let data_points = histograms(family).iter().map(point).collect();
            Data::Histogram(Histogram { data_points, aggregation_temporality: CUMULATIVE })
        }
    };
    Metric {
        name: family.name.to_owned(),
        description: family.help.clone().into_owned(),
        unit: unit(family.name).to_owned(),
        data: Some(data),
        ..Metric::default()
    }
}

/// In UCUM, by the ending that Prometheus has for it.
fn unit(name: &str) -> &'static str {
    match name.strip_suffix("_total").unwrap_or(name).rsplit_once('_') {
        Some((_, "seconds")) => "s",
        Some((_, "bytes")) => "By",
        _ => "",
    }
}

fn number(sample: &Sample<'_>, start_time_unix_nano: u64, time_unix_nano: u64) -> NumberDataPoint {
    NumberDataPoint {
        attributes: attributes(&sample.labels),
        start_time_unix_nano,
        time_unix_nano,
        value: Some(Value::AsDouble(sample.value)),
        ..NumberDataPoint::default()
    }
}

fn attributes(labels: &[Label<'_>]) -> Vec<KeyValue> {
    labels.iter().map(|(name, value)| text(name, value)).collect()
}

/// One histogram of a family.
struct Series<'s, 'a> {
    /// Without that of buckets.
    labels: Vec<Label<'a>>,
    /// Upper bounds, and how many are below each.
    buckets: Vec<(f64, f64)>,
    sum: Option<&'s Sample<'a>>,
    count: f64,
}

/// The samples of each stand together.
fn histograms<'s, 'a>(family: &'s Family<'a>) -> Vec<Series<'s, 'a>> {
    let mut series: Vec<Series<'s, 'a>> = Vec::new();
    for sample in &family.samples {
        let mut labels = sample.labels.clone();
        let bound = labels.iter().position(|(name, _)| *name == BOUND);
        let bound = bound.map(|place| labels.remove(place).1);
        if series.last().is_none_or(|last| last.labels != labels) {
            series.push(Series { labels, buckets: Vec::new(), sum: None, count: 0.0 });
        }
        let Some(last) = series.last_mut() else { continue };
        match (bound.and_then(|bound| bound.parse().ok()), sample.name.ends_with("_sum")) {
            (Some(bound), _) => last.buckets.push((bound, sample.value)),
            (None, true) => last.sum = Some(sample),
            (None, false) => last.count = sample.value,
        }
    }
    series
}

impl Series<'_, '_> {
    /// OTLP counts each bucket by itself, and knows the last without a bound.
    fn point(&self, start_time_unix_nano: u64, time_unix_nano: u64) -> HistogramDataPoint {
        let bounded = self.buckets.iter().filter(|(bound, _)| bound.is_finite());
        let (explicit_bounds, mut below): (Vec<f64>, Vec<f64>) = bounded.copied().unzip();
        below.push(self.count);
        let before = std::iter::once(0.0).chain(below.iter().copied());
        let bucket_counts = below.iter().zip(before).map(|(below, before)| (below - before) as u64);
        HistogramDataPoint {
            attributes: attributes(&self.labels),
            start_time_unix_nano,
            time_unix_nano,
            count: self.count as u64,
            sum: self.sum.map(|sum| sum.value),
            bucket_counts: bucket_counts.collect(),
            explicit_bounds,
            ..HistogramDataPoint::default()
        }
    }
}

/// Requests of so many points at most, one of each metric or more; a metric may be in several.
pub fn batches(metrics: Vec<Metric>, points_max: usize) -> Vec<Vec<Metric>> {
    let mut batches = Vec::new();
    let (mut batch, mut room) = (Vec::new(), points_max);
    for mut metric in metrics {
        while points(&metric) > room {
            if room > 0 {
                let rest = split_off(&mut metric, room);
                batch.push(std::mem::replace(&mut metric, rest));
            }
            batches.push(std::mem::take(&mut batch));
            room = points_max;
        }
        room -= points(&metric);
        batch.push(metric);
    }
    batches.push(batch);
    batches
}

fn points(metric: &Metric) -> usize {
    match &metric.data {
        Some(Data::Sum(sum)) => sum.data_points.len(),
        Some(Data::Gauge(gauge)) => gauge.data_points.len(),
        Some(Data::Histogram(histogram)) => histogram.data_points.len(),
        Some(Data::ExponentialHistogram(_) | Data::Summary(_)) | None => 0,
    }
}

/// What is beyond the first so many points, as the same metric.
fn split_off(metric: &mut Metric, at: usize) -> Metric {
    let data = match &mut metric.data {
        Some(Data::Sum(sum)) => {
            let data_points = sum.data_points.split_off(at);
            Some(Data::Sum(Sum { data_points, ..*sum }))
        }
        Some(Data::Gauge(gauge)) => {
            Some(Data::Gauge(Gauge { data_points: gauge.data_points.split_off(at) }))
        }
        Some(Data::Histogram(histogram)) => {
            let data_points = histogram.data_points.split_off(at);
            Some(Data::Histogram(Histogram { data_points, ..*histogram }))
        }
        Some(Data::ExponentialHistogram(_) | Data::Summary(_)) | None => None,
    };
    let (name, description, unit) =
        (metric.name.clone(), metric.description.clone(), metric.unit.clone());
    Metric { name, description, unit, data, ..Metric::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exposition::families;

    const PAGE: &str = "\
# HELP a_bytes_total Bytes.
# TYPE a_bytes_total counter
a_bytes_total{of=\"x\"} 7
a_bytes_total{of=\"y\"} 0
# TYPE b_seconds histogram
b_seconds_bucket{of=\"x\",le=\"0.5\"} 2
b_seconds_bucket{of=\"x\",le=\"2\"} 2
b_seconds_bucket{of=\"x\",le=\"+Inf\"} 5
b_seconds_sum{of=\"x\"} 31.5
b_seconds_count{of=\"x\"} 5
b_seconds_bucket{of=\"y\",le=\"0.5\"} 0
b_seconds_bucket{of=\"y\",le=\"+Inf\"} 0
b_seconds_sum{of=\"y\"} 0
b_seconds_count{of=\"y\"} 0
# TYPE c gauge
c 3
";

    fn read() -> Vec<Metric> {
        metrics(&families(PAGE), &mut Starts::new(10), 20)
    }

    #[test]
    fn each_kind_is_what_the_standard_makes_of_it() {
        let told = read();
        let heads: Vec<_> = told.iter().map(|metric| (&*metric.name, &*metric.unit)).collect();
        assert_eq!(heads, [("a_bytes_total", "By"), ("b_seconds", "s"), ("c", "")]);
        assert_eq!(told[0].description, "Bytes.");
        let Some(Data::Sum(sum)) = &told[0].data else { panic!("{told:?}") };
        assert_eq!((sum.is_monotonic, sum.aggregation_temporality), (true, CUMULATIVE));
        let first = &sum.data_points[0];
        assert_eq!((first.start_time_unix_nano, first.time_unix_nano), (10, 20));
        assert_eq!(first.attributes, [text("of", "x")]);
        assert_eq!(first.value, Some(Value::AsDouble(7.0)));
        let Some(Data::Histogram(histogram)) = &told[1].data else { panic!("{told:?}") };
        let [first, second] = &histogram.data_points[..] else { panic!("{histogram:?}") };
        assert_eq!(first.explicit_bounds, [0.5, 2.0]);
        assert_eq!(first.bucket_counts, [2, 0, 3]);
        assert_eq!((first.count, first.sum), (5, Some(31.5)));
        assert_eq!(first.attributes, [text("of", "x")]);
        assert_eq!((&*second.bucket_counts, second.count), (&[0, 0][..], 0));
        let Some(Data::Gauge(gauge)) = &told[2].data else { panic!("{told:?}") };
        assert_eq!(gauge.data_points[0].start_time_unix_nano, 0);
    }

    #[test]
    fn a_request_has_so_many_points_and_none_is_lost() {
        for points_max in 1..=6 {
            let batches = batches(read(), points_max);
            let counts = batches.iter().map(|batch| batch.iter().map(points).sum::<usize>());
            assert!(counts.clone().all(|count| count <= points_max), "{batches:?}");
            assert_eq!(counts.sum::<usize>(), 5);
            assert!(batches.iter().flatten().all(|metric| points(metric) > 0), "{batches:?}");
        }
    }
}
