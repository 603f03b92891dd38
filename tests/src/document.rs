//! The documents of the repository, as far as tests look into them: what they link to, what can be
//! linked to in them, and their blocks of code.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::specification::root;

/// Folders that hold no documents of ours.
const SKIPPED: &[&str] = &["target", "node_modules", "book"];

/// A Markdown file.
#[derive(Clone, Debug)]
pub struct Document {
    /// Below the repository's root.
    pub path: PathBuf,
    text: String,
}

/// `[text](target)`, or `[label]: target`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    pub line: usize,
    pub target: String,
}

/// What stands between two fences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Of its first line of code.
    pub line: usize,
    /// As in "sh" of "sh,norun takes an hour".
    pub language: String,
    /// What stands behind `norun`: why nobody runs it here.
    pub norun: Option<String>,
    pub text: String,
}

impl Document {
    /// Every Markdown file of the repository, by path.
    pub fn all() -> Vec<Document> {
        let mut paths = Vec::new();
        collect(&root(), &mut paths);
        paths.sort();
        let of = |path: &PathBuf| Document {
            path: path.strip_prefix(root()).expect("it was found there").into(),
            text: fs::read_to_string(path).expect("a readable document"),
        };
        paths.iter().map(of).collect()
    }

    /// One that is not in the repository, for tests of this file.
    pub fn of(path: &str, text: &str) -> Document {
        Document { path: path.into(), text: text.to_owned() }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// Lines outside of code blocks, with their numbers.
    fn prose(&self) -> impl Iterator<Item = (usize, &str)> {
        let mut fence: Option<&str> = None;
        (1..).zip(self.text.lines()).filter(move |(_, line)| match (fence, fence_of(line)) {
            (None, Some((marks, _))) => {
                fence = Some(marks);
                false
            }
            (Some(open), Some((marks, ""))) if marks.len() >= open.len() => {
                fence = None;
                false
            }
            (open, _) => open.is_none(),
        })
    }

    /// What headings are called in links, as GitHub and mdBook agree on it.
    pub fn anchors(&self) -> BTreeSet<String> {
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        let mut anchors = BTreeSet::new();
        for (_, line) in self.prose() {
            for id in line.split("<a id=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
                anchors.insert(id.to_owned());
            }
            let Some(heading) = heading(line) else { continue };
            let slug = slug(heading);
            let count = seen.entry(slug.clone()).or_default();
            anchors.insert(if *count == 0 { slug } else { format!("{slug}-{count}") });
            *count += 1;
        }
        anchors
    }

    pub fn links(&self) -> Vec<Link> {
        let mut links = Vec::new();
        for (line, text) in self.prose() {
            let text = without_code(text);
            let defined = text.strip_prefix('[').and_then(|rest| rest.split_once("]: "));
            if let Some((_, target)) = defined {
                links.push(Link { line, target: target.trim().to_owned() });
            }
            for rest in text.split("](").skip(1) {
                let target = rest.split([')', ' ']).next().unwrap_or_default();
                links.push(Link { line, target: target.to_owned() });
            }
        }
        links
    }

    pub fn blocks(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut lines = (1..).zip(self.text.lines());
        while let Some((number, line)) = lines.next() {
            let Some((marks, info)) = fence_of(line) else { continue };
            let indent = line.len() - line.trim_start().len();
            let closes = |line: &str| {
                fence_of(line)
                    .is_some_and(|(other, info)| info.is_empty() && other.len() >= marks.len())
            };
            let code: Vec<&str> = lines
                .by_ref()
                .map(|(_, line)| line)
                .take_while(|line| !closes(line))
                .map(|line| line.get(indent..).unwrap_or_default())
                .collect();
            let (kind, reason) = info.split_once(' ').unwrap_or((info, ""));
            let (language, flags) = kind.split_once(',').unwrap_or((kind, ""));
            blocks.push(Block {
                line: number + 1,
                language: language.to_owned(),
                norun: (flags == "norun").then(|| reason.trim().to_owned()),
                text: code.join("\n"),
            });
        }
        blocks
    }
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() && !name.starts_with('.') && !SKIPPED.contains(&name) {
            collect(&path, found);
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
}

/// The marks of a fence, and what stands behind them.
fn fence_of(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start();
    let info = line.trim_start_matches('`');
    let marks = &line[..line.len() - info.len()];
    (marks.len() >= 3 && !info.contains('`')).then(|| (marks, info.trim()))
}

fn heading(line: &str) -> Option<&str> {
    let text = line.trim_start_matches('#');
    let level = line.len() - text.len();
    (1..=6).contains(&level).then(|| text.strip_prefix(' ')).flatten()
}

fn slug(heading: &str) -> String {
    // Of a link within a heading, only its text counts.
    let text = heading.split("](").enumerate().map(|(position, part)| match position {
        0 => part,
        _ => part.split_once(')').map_or("", |(_, rest)| rest),
    });
    let text: String = text.collect::<String>().trim().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Without what stands in backticks: brackets there are no links.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
# One `heading`, two: three\n\
See [that](other.md#there \"title\") and `[not](this)`, ![plot](a.svg).\n\
```sh,norun takes an hour\nmayfly [x](y)\n# no heading\n```\n\
## Again\n\
## Again\n\
- in a list:\n  ```sh\n  a\n    b\n  ```\n\
[label]: https://example.com\n";

    #[test]
    fn headings_are_named_as_readers_of_markdown_name_them() {
        let anchors = Document::of("a.md", PAGE).anchors();
        let wanted = ["again", "again-1", "one-heading-two-three"];
        assert_eq!(anchors, wanted.map(str::to_owned).into());
    }

    #[test]
    fn links_are_found_where_they_are_links() {
        let links = Document::of("a.md", PAGE).links();
        let found: Vec<(usize, &str)> =
            links.iter().map(|link| (link.line, link.target.as_str())).collect();
        assert_eq!(found, [(2, "other.md#there"), (2, "a.svg"), (14, "https://example.com")]);
    }

    #[test]
    fn blocks_have_a_language_and_a_reason_not_to_run() {
        let block = |line, norun: Option<&str>, text: &str| Block {
            line,
            language: "sh".to_owned(),
            norun: norun.map(str::to_owned),
            text: text.to_owned(),
        };
        let wanted = [
            block(4, Some("takes an hour"), "mayfly [x](y)\n# no heading"),
            block(11, None, "a\n  b"),
        ];
        assert_eq!(Document::of("a.md", PAGE).blocks(), wanted);
    }
}
