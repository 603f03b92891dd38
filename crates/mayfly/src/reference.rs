//! Pages of `docs/reference` that are made from the code, and the tests that they are current. With
//! MAYFLY_BLESS=1 in the environment the tests write the pages instead.

mod audit_trail;
mod commands;
mod metrics;
mod properties;
mod settings;

use std::fs;
use std::path::Path;

/// Above every page.
const MADE: &str =
    "<!-- Made from the code by `MAYFLY_BLESS=1 cargo test --release -p mayfly reference`. -->";

/// Holds `docs/reference/{name}` to what the code says.
///
/// # Panics
///
/// The page says something else.
fn hold(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(name);
    let mut text = format!("{MADE}\n\n{}\n", text.trim());
    while text.contains("\n\n\n") {
        text = text.replace("\n\n\n", "\n\n");
    }
    if std::env::var_os("MAYFLY_BLESS").is_some_and(|bless| bless == "1") {
        return fs::write(&path, text).expect("docs/reference can be written");
    }
    let page = fs::read_to_string(&path).unwrap_or_default();
    let differs = (1..).zip(page.lines().zip(text.lines())).find(|(_, (is, should))| is != should);
    let line = differs.map_or(page.lines().count().min(text.lines().count()) + 1, |(line, _)| line);
    assert!(
        page == text,
        "docs/reference/{name} is not what the code says, from line {line} on; write it anew with \
         MAYFLY_BLESS=1 cargo test --release -p mayfly reference"
    );
}

/// Text for a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
