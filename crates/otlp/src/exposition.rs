//! A page of metrics in Prometheus' text format, read back: so that whatever the page tells is pushed, and nothing else.

use std::borrow::Cow;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// A metric with all its samples.
#[derive(Debug, PartialEq)]
pub struct Family<'a> {
    pub name: &'a str,
    pub help: Cow<'a, str>,
    pub kind: Kind,
    pub samples: Vec<Sample<'a>>,
}

#[derive(Debug, PartialEq)]
pub struct Sample<'a> {
    /// Of a histogram, the family's with an ending.
    pub name: &'a str,
    pub labels: Vec<Label<'a>>,
    pub value: f64,
}

pub type Label<'a> = (&'a str, Cow<'a, str>);

/// Reads a page. A line that is none of the format is passed by, as is a family of a kind that a node has none of.
pub fn families(page: &str) -> Vec<Family<'_>> {
    let mut families: Vec<Family<'_>> = Vec::new();
    let mut help = ("", "");
    for line in page.lines() {
        if let Some(told) = line.strip_prefix("# HELP ") {
            help = told.split_once(' ').unwrap_or((told, ""));
        } else if let Some(told) = line.strip_prefix("# TYPE ") {
            let Some((name, kind)) = told.split_once(' ') else { continue };
            let Some(kind) = kind_of(kind) else { continue };
            let help = if help.0 == name { unescaped(help.1) } else { Cow::Borrowed("") };
            families.push(Family { name, help, kind, samples: Vec::new() });
        } else if let Some(sample) = sample(line)
            && let Some(family) = families.last_mut().filter(|family| family.has(sample.name))
        {
            family.samples.push(sample);
        }
    }
    families
}

impl Family<'_> {
    fn has(&self, name: &str) -> bool {
        match (self.kind, name.strip_prefix(self.name)) {
            (Kind::Histogram, Some(ending)) => matches!(ending, "_bucket" | "_sum" | "_count"),
            (Kind::Counter | Kind::Gauge, Some(ending)) => ending.is_empty(),
            (_, None) => false,
        }
    }
}

fn kind_of(told: &str) -> Option<Kind> {
    match told.trim() {
        "counter" => Some(Kind::Counter),
        "gauge" => Some(Kind::Gauge),
        "histogram" => Some(Kind::Histogram),
        _ => None,
    }
}

/// `name{label="value",…} number`, without the time that a node tells of none.
fn sample(line: &str) -> Option<Sample<'_>> {
    let end = line.find(['{', ' '])?;
    let (name, rest) = line.split_at(end);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (Vec::new(), rest),
    };
    let value = rest.trim().parse().ok()?;
    (!name.is_empty()).then_some(Sample { name, labels, value })
}

/// What stands between the braces, and what stands behind them.
fn labels(mut rest: &str) -> Option<(Vec<Label<'_>>, &str)> {
    let mut labels = Vec::new();
    loop {
        if let Some(behind) = rest.strip_prefix('}') {
            return Some((labels, behind));
        }
        let (name, value) = rest.split_once("=\"")?;
        let end = end_of_value(value)?;
        labels.push((name.trim(), unescaped(&value[..end])));
        rest = &value[end + 1..];
        rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
    }
}

/// The place of the quotation mark that is no part of the value.
fn end_of_value(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    for (place, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return Some(place),
            _ => (),
        }
    }
    None
}

fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let mut told = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        match char {
            '\\' => match chars.next() {
                Some('n') => told.push('\n'),
                Some(other) => told.push(other),
                None => told.push('\\'),
            },
            other => told.push(other),
        }
    }
    Cow::Owned(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read_as_it_was_written() {
        let page = "# HELP a_total Of \\\\ all.\n# TYPE a_total counter\na_total{of=\"x\\\"y\\\\\",to=\"a,b}\"} 7\n\
                    a_total 1.5\n\n# TYPE b gauge\nb NaN\nb{} -Inf\n# HELP c_seconds Times.\n\
                    # TYPE c_seconds histogram\nc_seconds_bucket{le=\"+Inf\"} 2\nc_seconds_sum 0.25\nc_seconds_count 2\n";
        let found = families(page);
        let names: Vec<_> = found.iter().map(|family| (family.name, family.kind)).collect();
        let (counter, gauge, histogram) = (Kind::Counter, Kind::Gauge, Kind::Histogram);
        assert_eq!(names, [("a_total", counter), ("b", gauge), ("c_seconds", histogram)]);
        assert_eq!((&*found[0].help, &*found[1].help), ("Of \\ all.", ""));
        let [first, second] = &found[0].samples[..] else { panic!("{found:?}") };
        assert_eq!(first.labels, [("of", "x\"y\\".into()), ("to", "a,b}".into())]);
        assert_eq!((first.value, second.value, second.labels.len()), (7.0, 1.5, 0));
        assert!(found[1].samples[0].value.is_nan());
        assert_eq!(found[1].samples[1].value, f64::NEG_INFINITY);
        assert_eq!(found[2].samples.len(), 3);
    }

    #[test]
    fn what_is_no_line_of_the_format_is_passed_by() {
        for line in
            ["b", "b{", "b{x=\"1\"", "b{x=\"1\\\"} 2", "b{x} 1", "b one", " 1", "c 1", "b_sum 1"]
        {
            let page = format!("# TYPE b gauge\n{line}\n");
            assert_eq!(families(&page)[0].samples, [], "{line}");
        }
        assert_eq!(families("# TYPE b summary\nb 1\n# TYPE\n# HELP\nb 2"), []);
    }
}
