//! The rules and dashboards of `deploy/`, read.

use std::collections::BTreeSet;
use std::fs;

use anyhow::Context;
use mayfly_tests::specification::root;
use serde_json::Value;

/// Every duration of the rules is so many times shorter in a test.
pub const FASTER: u64 = 30;

pub fn rules() -> anyhow::Result<String> {
    Ok(fs::read_to_string(root().join("deploy/prometheus/mayfly-alerts.yml"))?)
}

/// The rules with what stands behind `for:` and in `[…]` a [`FASTER`]th of what it is, a second at least.
pub fn fast(rules: &str) -> String {
    let line = |line: &str| match line.trim().strip_prefix("for: ").and_then(seconds) {
        Some(told) => {
            let indent = &line[..line.len() - line.trim_start().len()];
            format!("{indent}for: {}s", faster(told))
        }
        None => line.split('[').map(window).collect::<Vec<_>>().join("["),
    };
    rules.lines().map(line).collect::<Vec<_>>().join("\n") + "\n"
}

fn window(text: &str) -> String {
    let found = text.split_once(']').and_then(|(told, rest)| Some((seconds(told)?, rest)));
    match found {
        Some((told, rest)) => format!("{}s]{rest}", faster(told)),
        None => text.to_owned(),
    }
}

fn faster(seconds: u64) -> u64 {
    if seconds == 0 { 0 } else { (seconds / FASTER).max(1) }
}

/// Of a duration such as `5m`.
pub fn seconds(duration: &str) -> Option<u64> {
    let (number, unit) = duration.split_at_checked(duration.len().checked_sub(1)?)?;
    let unit = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        _ => return None,
    };
    Some(number.parse::<u64>().ok()? * unit)
}

/// Names, what stands behind `for:` in seconds, and addresses of pages.
pub fn alerts(rules: &str) -> Vec<(String, u64, String)> {
    let of = |part: &str, key: &str| {
        let line = part.lines().find_map(|line| line.trim().strip_prefix(key));
        line.unwrap_or_default().trim().to_owned()
    };
    let parts = rules.split("- alert: ").skip(1);
    parts
        .map(|part| {
            let name = part.lines().next().unwrap_or_default().to_owned();
            (name, seconds(&of(part, "for:")).unwrap_or(0), of(part, "runbook_url:"))
        })
        .collect()
}

/// Each query of each panel: dashboard, panel, expression, with variables filled in.
pub fn queries() -> anyhow::Result<Vec<(String, String, String)>> {
    let mut queries = Vec::new();
    for name in ["cluster", "entities", "lifetime", "experiment"] {
        let text = fs::read_to_string(root().join(format!("deploy/grafana/{name}.json")))?;
        let dashboard: Value = serde_json::from_str(&text).context(name)?;
        for panel in dashboard["panels"].as_array().context("no panels")? {
            let title = panel["title"].as_str().unwrap_or_default();
            for target in panel["targets"].as_array().context("no targets")? {
                let expression = target["expr"].as_str().context("no expression")?;
                let filled = expression
                    .replace("$__rate_interval", "20s")
                    .replace("$instance", ".*")
                    .replace("$entity", ".*");
                queries.push((name.to_owned(), title.to_owned(), filled));
            }
        }
    }
    Ok(queries)
}

/// All names of metrics in the page that is made from the code.
pub fn metrics() -> anyhow::Result<BTreeSet<String>> {
    let page = fs::read_to_string(root().join("docs/reference/metrics.md"))?;
    let name = |line: &str| Some(line.strip_prefix("| `")?.split_once('`')?.0.to_owned());
    Ok(page.lines().filter_map(name).collect())
}

#[test]
fn durations_are_made_shorter_and_nothing_else() {
    let told = "    for: 10m\n    expr: a[5m] > 20 and b{c=\"d\"}[15m] or e\n    for: 0m\n";
    let shorter = "    for: 20s\n    expr: a[10s] > 20 and b{c=\"d\"}[30s] or e\n    for: 0s\n";
    assert_eq!(fast(told), shorter);
}

#[test]
fn every_alert_has_a_page_that_names_it() -> anyhow::Result<()> {
    const PAGES: &str = "https://github.com/mayfly-mq/mayfly/blob/main/";
    let alerts = alerts(&rules()?);
    assert!(alerts.len() > 20, "{alerts:?}");
    for (name, _, page) in alerts {
        let path = page.strip_prefix(PAGES).with_context(|| format!("{name}: {page}"))?;
        let text =
            fs::read_to_string(root().join(path)).with_context(|| format!("{name}: {path}"))?;
        assert!(text.contains(&name), "{path} does not name {name}");
    }
    Ok(())
}

/// A rule or a panel that names what no node tells is silent for ever.
#[test]
fn rules_and_panels_name_metrics_that_there_are() -> anyhow::Result<()> {
    let known = metrics()?;
    let mut texts = vec![rules()?];
    texts.extend(queries()?.into_iter().map(|(.., expression)| expression));
    let mut seen = 0;
    for text in texts {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let names =
            words.filter(|word| word.starts_with("mayfly_") || word.starts_with("process_"));
        for name in names {
            let family =
                ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
            let is_known = known.contains(name) || family.is_some_and(|name| known.contains(name));
            assert!(is_known, "{name} is no metric of a node");
            seen += 1;
        }
    }
    assert!(seen > 80, "{seen}");
    Ok(())
}
