//! What the documents tell their readers to type works: the shell blocks of README.md and of every
//! page below docs/ are run in their order, each page on a cluster of its own. A block that cannot be
//! run here says why: ```` ```sh,norun takes an hour ````. Others than `sh` are no commands.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use mayfly_tests::{Document, LocalCluster, Page, ask};

/// A page is read in minutes and run in seconds.
const PAGE_WITHIN: Duration = Duration::from_secs(120);
/// Made from what the code describes.
const METRICS: &str = "docs/reference/metrics.md";
/// Names under which a block would not be run although it is for a shell.
const OTHER_SHELLS: &[&str] = &["bash", "shell", "console", "zsh"];

fn is_page(document: &Document) -> bool {
    document.path == Path::new("README.md") || document.path.starts_with("docs")
}

#[test]
fn what_pages_tell_to_type_works() -> anyhow::Result<()> {
    let mut failed = Vec::new();
    for document in Document::all().iter().filter(|document| is_page(document)) {
        let Some(page) = Page::of(document) else { continue };
        let name = document.path.display();
        for (line, reason) in &page.skipped {
            println!("{name}:{line} is not run: it {reason}");
        }
        if !page.is_run() {
            continue;
        }
        let started = Instant::now();
        let cluster = LocalCluster::start().with_context(|| name.to_string())?;
        match page.run(&cluster, PAGE_WITHIN) {
            Ok(()) => println!("{name}: all blocks work, {:.1} s", started.elapsed().as_secs_f64()),
            Err(error) => failed.push(format!("{name}: {error:#}")),
        }
    }
    ensure!(failed.is_empty(), "{}", failed.join("\n\n"));
    Ok(())
}

#[test]
fn a_block_that_is_not_run_says_why() {
    for document in Document::all().iter().filter(|document| is_page(document)) {
        for block in document.blocks() {
            let at = format!("{}:{}", document.path.display(), block.line);
            assert!(block.norun != Some(String::new()), "{at}: norun, and no reason");
            assert!(!OTHER_SHELLS.contains(&block.language.as_str()), "{at}: call the language sh");
        }
    }
}

#[test]
fn a_command_that_fails_is_told_by_its_line() -> anyhow::Result<()> {
    let cluster = LocalCluster::start()?;
    let text = "```sh\nmayfly queue create orders\n```\n\n```sh\nmayfly send orders hi --tll 5s\nexit 0\n```\n";
    let page = Page::of(&Document::of("docs/a.md", text)).context("it has blocks")?;
    let told = page.run(&cluster, PAGE_WITHIN).expect_err("there is no such flag").to_string();
    ensure!(told.contains("FAILED at line 6 or after it: mayfly send orders hi"), "{told}");
    ensure!(told.contains("unexpected argument '--tll' found"), "{told}");
    Ok(())
}

/// Names that a scrape tells of, each with its labels.
fn told(scraped: &str) -> BTreeMap<&str, BTreeSet<&str>> {
    let kinds = scraped.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let mut told: BTreeMap<&str, BTreeSet<&str>> =
        kinds.map(|name| (name, BTreeSet::new())).collect();
    for line in scraped.lines().filter(|line| !line.starts_with('#')) {
        let Some((series, rest)) = line.split_once('{') else { continue };
        let suffixes = ["_bucket", "_sum", "_count"];
        let whole = suffixes.iter().find_map(|suffix| series.strip_suffix(suffix));
        let name = whole.filter(|name| told.contains_key(name)).unwrap_or(series);
        // A label stands before each `="`, behind the value of the one before; the last part has none.
        let labels = rest.split("=\"").take(rest.matches("=\"").count());
        let labels = labels.map(|part| part.rsplit(['"', ',']).next().unwrap_or(part));
        told.entry(name).or_default().extend(labels.filter(|label| *label != "le"));
    }
    told
}

#[test]
fn what_a_node_measures_is_described() -> anyhow::Result<()> {
    let cluster = LocalCluster::start()?;
    let text = "```sh\nmayfly queue create orders --ttl 1s\nmayfly send orders hi --count 10\n\
                mayfly receive orders --complete\nmayfly clock advance 1min\n```\n";
    let page = Page::of(&Document::of("docs/a.md", text)).context("it has blocks")?;
    page.run(&cluster, PAGE_WITHIN)?;
    let answer = ask(&cluster.http(), "GET /metrics", "", "")?;
    ensure!(answer.status == 200, "/metrics answers {}", answer.status);
    let documents = Document::all();
    let described = documents.iter().find(|document| document.path == Path::new(METRICS));
    let described = described.context("there is a page of metrics")?.text();
    let told = told(&answer.body);
    ensure!(told.len() > 20, "it tells of {} metrics: {}", told.len(), answer.body);
    for (name, labels) in told {
        let row = described.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
        let row = row.with_context(|| format!("{METRICS} does not describe {name}"))?;
        for label in labels {
            ensure!(row.contains(&format!("`{label}`")), "{name} has a label {label}: {row}");
        }
    }
    Ok(())
}
