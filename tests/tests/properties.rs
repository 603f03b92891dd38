//! One fact in one place: an entity's property is spelled in its homes and where something acts on it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use domain::{EntityProperty, PROPERTIES};

/// Where all properties are listed, and why each of these has a list of its own.
const HOMES: &[(&str, &str)] = &[
    ("crates/domain/src/entity_properties.rs", "the fields and their defaults"),
    ("crates/domain/src/entity_properties/table.rs", "everything else that is to say of them"),
    ("crates/wire/src/command.rs", "bytes in the log, in an order that is fixed"),
    ("crates/wire/proto/mayfly/v1/entities.proto", "numbers in messages, which are fixed"),
    ("crates/wire/src/native/entity_properties.rs", "the fields of those messages"),
    ("crates/http/src/atom/layout.rs", "the order in XML, for those that do not come last"),
];

/// Properties that one file may act on: what names more is another table.
const ACTED_ON_MAX: usize = 6;

/// What gives properties as clients do, and what only tests read.
const CLIENTS: &[&str] = &[
    "crates/chaos/",
    "crates/simulation/",
    "crates/wire/src/arbitrary/",
    "crates/wire/src/golden",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Sources below a folder, by their path from the root, without tests.
fn sources(folder: &Path, found: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).expect("a folder of the repository") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "tests" {
                sources(&path, found);
            }
        } else if (name.ends_with(".rs") && name != "tests.rs") || name.ends_with(".proto") {
            let text = fs::read_to_string(&path).expect("a source");
            let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            let path = path.strip_prefix(root()).expect("below the root");
            found.insert(path.to_string_lossy().into_owned(), text.to_owned());
        }
    }
}

/// Which properties each source names, in whatever dialect.
fn spellings() -> BTreeMap<String, BTreeSet<&'static str>> {
    let mut found = BTreeMap::new();
    sources(&root().join("crates"), &mut found);
    found.iter().map(|(path, text)| (path.clone(), spelled_in(text))).collect()
}

fn spelled_in(text: &str) -> BTreeSet<&'static str> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let words: BTreeSet<&str> =
        text.split(|c| !is_word(c)).map(|word| word.trim_matches('-')).collect();
    let dialects = |property: &EntityProperty| {
        let EntityProperty { name, native, element, flag, .. } = property;
        [Some(*name), Some(*native), Some(*element), *flag]
    };
    let spelled = PROPERTIES.iter().filter(|property| {
        // "status" and "ttl" are also words for other things.
        let mut names = dialects(property).into_iter().flatten().filter(|name| name.len() > 6);
        names.any(|name| words.contains(name))
    });
    spelled.map(|property| property.name).collect()
}

/// What the next property costs that nothing acts on yet: free text was as much.
#[test]
fn a_property_is_spelled_in_its_homes_alone() {
    let spellings = spellings();
    for property in ["user_metadata", "enable_batched_operations"] {
        let files: Vec<&str> = spellings
            .iter()
            .filter(|(path, spelled)| spelled.contains(property) && !is_client(path))
            .map(|(path, _)| path.as_str())
            .collect();
        let mut homes: Vec<&str> = HOMES.iter().map(|(path, _)| *path).collect();
        homes.sort_unstable();
        assert_eq!(files, homes, "{property}");
    }
}

#[test]
fn there_is_no_second_table_of_properties() {
    for (path, spelled) in spellings() {
        let is_home = HOMES.iter().any(|(home, _)| *home == path);
        assert!(
            is_home || is_client(&path) || spelled.len() <= ACTED_ON_MAX,
            "{path} names {} properties, so many as a table; make it from domain::PROPERTIES: {spelled:?}",
            spelled.len()
        );
    }
}

fn is_client(path: &str) -> bool {
    CLIENTS.iter().any(|clients| path.starts_with(clients))
}
