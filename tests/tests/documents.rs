//! Documents hold together: what they link to is there, and every page is in the book.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use mayfly_tests::specification::root;
use mayfly_tests::{Document, calls};

/// Where the repository stands, and its files and folders by their paths.
const REPOSITORY: &str = "https://github.com/mayfly-mq/mayfly/";
/// Of the book.
const PAGES: &str = "docs";
/// The book's table of contents.
const SUMMARY: &str = "docs/SUMMARY.md";
/// Made from the command line's own description.
const COMMANDS: &str = "docs/reference/commands.md";
/// Where that page tells what many commands take.
const CONNECTION: &str = "How a command reaches a cluster";
/// Words that stand for a command of the reader's choice.
const PLACEHOLDER: &str = "COMMAND";
/// What the crates are.
const ARCHITECTURE: &str = "docs/internals/architecture.md";
/// Messages a person meets, and what to do.
const TROUBLESHOOTING: &str = "docs/operations/troubleshooting.md";
/// A README is read by people who have not decided to read on.
const README_BYTES_MAX: usize = 8 * 1024;

/// Without `.` and `..`; `None` above the root.
fn normal(path: &Path) -> Option<PathBuf> {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => normal.pop().then_some(())?,
            Component::Normal(name) => normal.push(name),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => (),
        }
    }
    Some(normal)
}

/// What a link of `document` leads to: a path below the root, and an anchor. `None` if it leaves the
/// repository. A page of the book reaches what is no page by its address, as nothing else is beside the
/// book where it is read.
fn destination(document: &Document, target: &str) -> Option<Result<(PathBuf, String), String>> {
    if let Some(path) = in_repository(target) {
        let (file, anchor) = path.split_once('#').unwrap_or((path, ""));
        return Some(Ok((file.into(), anchor.to_owned())));
    }
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = match file {
        "" => Some(document.path.clone()),
        file if file.starts_with('/') => None,
        file => normal(&document.path.parent().unwrap_or(Path::new("")).join(file)),
    };
    let is_page = document.path.starts_with(PAGES);
    Some(match path {
        Some(path) if is_page && !path.starts_with(PAGES) => {
            let path = path.display();
            Err(format!("leads out of the book; write {REPOSITORY}blob/main/{path}"))
        }
        Some(path) => Ok((path, anchor.to_owned())),
        None => Err("leads out of the repository".to_owned()),
    })
}

/// The path of a file or folder that is named by its address in the repository.
fn in_repository(target: &str) -> Option<&str> {
    let path = target.strip_prefix(REPOSITORY)?;
    path.strip_prefix("blob/main/").or_else(|| path.strip_prefix("tree/main/"))
}

/// What is wrong with the links of these documents. `exists` tells of files that are no documents.
fn broken(documents: &[Document], exists: impl Fn(&Path) -> bool) -> Vec<String> {
    let anchors: BTreeMap<&Path, BTreeSet<String>> =
        documents.iter().map(|document| (document.path.as_path(), document.anchors())).collect();
    let mut wrong = Vec::new();
    for document in documents {
        for link in document.links() {
            let Some(destination) = destination(document, &link.target) else { continue };
            let why = destination.and_then(|(path, anchor)| match anchors.get(path.as_path()) {
                Some(known) if anchor.is_empty() || known.contains(&anchor) => Ok(()),
                Some(_) => Err(format!("{} has no heading #{anchor}", path.display())),
                None if exists(&path) && anchor.is_empty() => Ok(()),
                None if exists(&path) => Err(format!("{} is no document", path.display())),
                None => Err(format!("there is no {}", path.display())),
            });
            if let Err(why) = why {
                wrong.push(format!(
                    "{}:{}: [{}]: {why}",
                    document.path.display(),
                    link.line,
                    link.target
                ));
            }
        }
    }
    wrong
}

#[test]
fn every_relative_link_leads_somewhere() {
    let documents = Document::all();
    assert!(documents.iter().any(|document| document.path == Path::new("README.md")));
    let wrong = broken(&documents, |path| root().join(path).exists());
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn broken_links_are_told() {
    let page = "[a](b.md) [c](b.md#here) [d](b.md#gone) [e](gone.md) [f](../c.rs) [g](../../x) [h](#i)\n\
                [j]: https://github.com/mayfly-mq/mayfly/blob/main/c.rs\n\
                [k]: https://github.com/mayfly-mq/mayfly/blob/main/d.rs\n\
                [l]: https://github.com/mayfly-mq/mayfly/issues\n";
    let documents = [Document::of("docs/a.md", page), Document::of("docs/b.md", "# Here\n")];
    assert_eq!(
        broken(&documents, |path| path == Path::new("c.rs")),
        [
            "docs/a.md:1: [b.md#gone]: docs/b.md has no heading #gone",
            "docs/a.md:1: [gone.md]: there is no docs/gone.md",
            "docs/a.md:1: [../c.rs]: leads out of the book; \
             write https://github.com/mayfly-mq/mayfly/blob/main/c.rs",
            "docs/a.md:1: [../../x]: leads out of the repository",
            "docs/a.md:1: [#i]: docs/a.md has no heading #i",
            "docs/a.md:3: [https://github.com/mayfly-mq/mayfly/blob/main/d.rs]: there is no d.rs",
        ]
    );
}

#[test]
fn every_page_is_in_the_book_once() {
    let documents = Document::all();
    let summary = documents.iter().find(|document| document.path == Path::new(SUMMARY));
    let summary = summary.expect("the book has a table of contents");
    let mut listed = BTreeSet::new();
    for link in summary.links() {
        let Some(Ok((path, anchor))) = destination(summary, &link.target) else {
            panic!("{SUMMARY}:{}: [{}] is no page", link.line, link.target);
        };
        assert!(anchor.is_empty(), "{SUMMARY}:{}: a chapter is a whole page", link.line);
        assert!(listed.insert(path), "{SUMMARY}:{}: [{}] is there twice", link.line, link.target);
    }
    let pages = documents.iter().map(|document| document.path.clone());
    let pages: BTreeSet<PathBuf> =
        pages.filter(|path| path.starts_with("docs") && path != Path::new(SUMMARY)).collect();
    assert_eq!(listed, pages, "left: the pages that {SUMMARY} lists, right: those there are");
}

#[test]
fn the_readme_is_short() {
    let documents = Document::all();
    let readme = documents.iter().find(|document| document.path == Path::new("README.md"));
    let bytes = readme.expect("a README").text().len();
    assert!(
        bytes <= README_BYTES_MAX,
        "README.md has {bytes} bytes, allowed are {README_BYTES_MAX}"
    );
}

/// Everything the code may say, as one text: literals that a backslash continues on the next line are
/// whole.
fn code() -> String {
    let mut files = Vec::new();
    sources(&root().join("crates"), &mut files);
    let texts = files.iter().map(|path| std::fs::read_to_string(path).expect("a source file"));
    let mut code = String::new();
    for text in texts {
        let mut parts = text.split("\\\n");
        code += parts.next().unwrap_or_default();
        parts.for_each(|part| code += part.trim_start());
        code.push('\n');
    }
    code.replace("\\\"", "\"")
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => sources(&path, found),
            false if path.extension().is_some_and(|ending| ending == "rs") => found.push(path),
            false => (),
        }
    }
}

/// What a quoted message has of its own, between the parts that differ each time.
fn fixed_parts(quoted: &str) -> impl Iterator<Item = &str> {
    quoted.split('…').map(str::trim).filter(|part| part.len() >= 4)
}

#[test]
fn messages_that_are_explained_are_said() {
    let documents = Document::all();
    let page = documents.iter().find(|document| document.path == Path::new(TROUBLESHOOTING));
    let page = page.expect("a page on messages");
    let code = code();
    let quoted = page.text().lines().filter_map(|line| line.strip_prefix("### `"));
    let quoted: Vec<&str> = quoted.map(|line| line.trim_end_matches('`')).collect();
    assert!(quoted.len() > 20, "{TROUBLESHOOTING} explains {} messages", quoted.len());
    let unsaid =
        quoted.iter().filter(|quoted| !fixed_parts(quoted).all(|part| code.contains(part)));
    let unsaid: Vec<&&str> = unsaid.collect();
    assert!(unsaid.is_empty(), "{TROUBLESHOOTING} explains what nothing says: {unsaid:#?}");
}

/// Whether a word of a document is a path in this repository: it begins with one of its folders and
/// ends as files do.
fn is_path(word: &str) -> bool {
    let folders = ["crates/", "tests/", "benches/", "deploy/", "docs/"];
    let endings = [".rs", ".sh", ".py", ".mjs", ".md", ".toml", ".json", ".svg"];
    let is_spelled = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    folders.iter().any(|folder| word.starts_with(folder))
        && endings.iter().any(|ending| word.ends_with(ending))
        && word.chars().all(is_spelled)
}

#[test]
fn files_that_are_named_are_there() {
    let mut wrong = Vec::new();
    for document in Document::all() {
        // The changelog and the results tell of what was.
        if document.path == Path::new("CHANGELOG.md") || document.path.starts_with("benches") {
            continue;
        }
        for (line, text) in (1..).zip(document.text().lines()) {
            let words = text.split(|c: char| c.is_whitespace() || "`()[],;:".contains(c));
            let gone = words.filter(|word| is_path(word) && !root().join(word).exists());
            wrong.extend(gone.map(|word| format!("{}:{line}: {word}", document.path.display())));
        }
    }
    assert!(wrong.is_empty(), "files that are not there:\n{}", wrong.join("\n"));
}

/// What a command takes, and whether it is one or has others below it.
#[derive(Default)]
struct Described<'a> {
    flags: BTreeSet<&'a str>,
    is_group: bool,
}

/// The flags in the tables of a section.
fn flags(section: &str) -> BTreeSet<&str> {
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    let names = rows.filter_map(|row| row.split('`').next());
    names
        .flat_map(|name| name.split([' ', ',', '[']))
        .filter(|name| name.starts_with('-'))
        .collect()
}

/// The commands of the reference page, by how they are called.
fn described(page: &str) -> BTreeMap<&str, Described<'_>> {
    let sections = page.split("\n#").skip(1).map(|section| {
        let (heading, text) = section.split_once('\n').unwrap_or((section, ""));
        (heading.trim_start_matches('#').trim(), text)
    });
    let sections: Vec<(&str, &str)> = sections.collect();
    let shared = sections.iter().find(|(heading, _)| *heading == CONNECTION);
    let shared = shared.map(|(_, text)| flags(text)).unwrap_or_default();
    let commands = sections.iter().filter(|(heading, _)| heading.starts_with("mayfly "));
    let described = commands.map(|(heading, text)| {
        let mut own = flags(text);
        if text.contains("](#how-a-command-reaches-a-cluster)") {
            own.extend(&shared);
        }
        (*heading, Described { flags: own, is_group: !text.contains("```text\nmayfly ") })
    });
    described.collect()
}

/// What is wrong with a call.
fn misnamed(call: &[String], commands: &BTreeMap<&str, Described<'_>>) -> Option<String> {
    if call.iter().any(|word| word == PLACEHOLDER) || call.len() == 1 {
        return None;
    }
    let longest = (2..=call.len()).rev().find_map(|length| {
        let command = commands.get(call[..length].join(" ").as_str())?;
        Some((&call[length..], command))
    });
    let Some((words, command)) = longest else {
        return (!call[1].starts_with('-')).then(|| "there is no such command".to_owned());
    };
    if let Some(word) = words.first().filter(|word| command.is_group && !word.starts_with('-')) {
        return Some(format!("there is no command {word} below it"));
    }
    // What is behind is another command's.
    let words = words.iter().take_while(|word| *word != "--");
    let flags = words.filter(|word| word.starts_with('-') && *word != "-");
    let flags = flags.map(|word| word.split('=').next().unwrap_or(word));
    let unknown = flags.filter(|flag| *flag != "--help" && !command.flags.contains(flag));
    // A value may be a negative number, or text that begins with a dash: none of ours does.
    unknown.map(|flag| format!("it takes no {flag}")).next()
}

/// Code between backticks that calls `mayfly`, whole.
fn spans(text: &str) -> impl Iterator<Item = &str> {
    let spans = text.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    spans.filter(|span| span.starts_with("mayfly ") && !span.contains('…'))
}

#[test]
fn commands_that_are_named_are_there() {
    let documents = Document::all();
    let page = documents.iter().find(|document| document.path == Path::new(COMMANDS));
    let commands = described(page.expect("a page of commands").text());
    assert!(commands.len() > 30, "{COMMANDS} describes {} commands", commands.len());
    let (mut wrong, mut named) = (Vec::new(), 0);
    for document in &documents {
        let is_page = document.path == Path::new("README.md") || document.path.starts_with("docs");
        if !is_page || document.path == Path::new(COMMANDS) {
            continue;
        }
        let blocks = document.blocks();
        let typed = blocks.iter().filter(|block| block.language == "sh");
        let typed = typed.map(|block| block.text.as_str());
        for call in typed.chain(spans(document.text())).flat_map(calls) {
            named += 1;
            let at = document.path.display();
            wrong.extend(misnamed(&call, &commands).map(|why| format!("{at}: {call:?}: {why}")));
        }
    }
    assert!(named > 50, "only {named} commands were found");
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn commands_that_are_not_there_are_told() {
    let page = "\n## How a command reaches a cluster\n\n| `--connect <X>` | y |\n\n## mayfly queue\n\nText.\n\n\
                ### mayfly queue create\n\n```text\nmayfly queue create [OPTIONS] <QUEUE>\n```\n\n\
                | `-t, --ttl <DURATION>` | how long |\n| `--fifo[=<BOOL>]` | in order |\n\n[And](#how-a-command-reaches-a-cluster).\n";
    let commands = described(page);
    for (call, why) in [
        ("mayfly queue create q -t 5s --connect a:1 --help", None),
        ("mayfly queue create q --fifo=false --ttl 5s", None),
        ("mayfly queue", None),
        ("mayfly queue create q --tll 5s", Some("it takes no --tll")),
        ("mayfly queue destroy q", Some("there is no command destroy below it")),
        ("mayfly topic", Some("there is no such command")),
    ] {
        let words: Vec<String> = call.split(' ').map(str::to_owned).collect();
        assert_eq!(misnamed(&words, &commands).as_deref(), why, "{call}");
    }
}

#[test]
fn every_crate_has_its_line_in_the_architecture() {
    let documents = Document::all();
    let page = documents.iter().find(|document| document.path == Path::new(ARCHITECTURE));
    let rows = page.expect("a page of the crates").text().lines();
    let cells = rows.filter_map(|row| row.strip_prefix("| ")?.split(" | ").next());
    let names = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    let told: BTreeSet<String> = names.map(str::to_owned).collect();
    let folders = std::fs::read_dir(root().join("crates")).expect("crates/");
    for folder in folders.map(|entry| entry.expect("an entry of crates/").file_name()) {
        let name = folder.to_string_lossy();
        assert!(told.contains(name.as_ref()), "{ARCHITECTURE} does not tell what '{name}' is");
    }
}

/// The version a file names in these words: what follows `before`, up to the first character that no version has.
fn versions<'a>(text: &'a str, before: &str) -> Vec<&'a str> {
    let version = |(at, _): (usize, &str)| {
        let text = &text[at + before.len()..];
        let is_of_version = |c: char| c.is_ascii_digit() || c == '.';
        let end = text.find(|c| !is_of_version(c)).unwrap_or(text.len());
        text[..end].trim_end_matches('.')
    };
    text.match_indices(before).map(version).filter(|version| !version.is_empty()).collect()
}

#[test]
fn the_version_is_the_same_everywhere() {
    let current = env!("CARGO_PKG_VERSION");
    // A file, and what its version follows.
    for (file, before) in [
        ("README.md", "mayfly_"),
        ("CHANGELOG.md", "\n## "),
        ("deploy/compose/cluster/compose.yaml", "mayfly:"),
        ("deploy/compose/emulator/compose.yaml", "mayfly:"),
        ("deploy/helm/mayfly/Chart.yaml", "\nversion: "),
        ("deploy/helm/mayfly/Chart.yaml", "\nappVersion: "),
        ("docs/operations/install.md", "mayfly_"),
        ("docs/operations/install.md", "mayfly-"),
        ("docs/operations/install.md", "mayfly:"),
        ("docs/releases.md", "current version is "),
        ("docs/releases.md", "the tag `v"),
    ] {
        let text = std::fs::read_to_string(root().join(file)).expect(file);
        let found = versions(&text, before);
        // The changelog tells of older ones below.
        let told = if file == "CHANGELOG.md" { &found[..found.len().min(1)] } else { &found[..] };
        assert!(!told.is_empty(), "{file}: no version follows {before:?}");
        assert!(told.iter().all(|told| *told == current), "{file}: {told:?} is not {current}");
    }
}
