//! The arrows between the modules of a crate.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use crate::layers::{CRATES, Layer};
use crate::paths;
use crate::root;

/// A crate with more sources than this has its modules in [`CRATES`].
const SOURCES_MAX: usize = 12;

/// A crate's modules as its sources have them: each with those it uses, and for each of these one place.
#[derive(Default)]
struct Modules(BTreeMap<String, BTreeMap<String, String>>);

/// One source: its module's path, its file, and what it says of other modules.
struct Source {
    module: Vec<String>,
    file: String,
    found: paths::Found,
}

impl Modules {
    /// `sources`: the crate's files by their paths under `src`.
    fn read(sources: &[(String, String)]) -> Modules {
        let mut read: Vec<Source> = Vec::new();
        for (file, text) in sources {
            let module = module_of(file);
            let found = paths::find(text, &module);
            read.push(Source { module, file: file.clone(), found });
        }
        let tests: BTreeSet<Vec<String>> =
            read.iter().flat_map(|source| source.found.test_modules.clone()).collect();
        read.retain(|source| !tests.iter().any(|test| source.module.starts_with(test)));
        let mut modules = Modules::default();
        for source in read.iter().filter(|source| !source.module.is_empty()) {
            modules.0.entry(source.module[0].clone()).or_default();
        }
        let names = modules.names_of_the_root(&read);
        for source in read.iter().filter(|source| !source.module.is_empty()) {
            for path in &source.found.paths {
                let name = path.first().map_or("*", String::as_str);
                let to = match modules.0.contains_key(name) {
                    true => name,
                    false => names.get(name).map_or("lib", String::as_str),
                };
                let at = format!("{} uses {}", source.file, path.join("::"));
                let arrows = modules.0.get_mut(&source.module[0]).expect("each module is there");
                if to != source.module[0] {
                    arrows.entry(to.to_owned()).or_insert(at);
                }
            }
        }
        modules
    }

    /// The modules that names come from which the crate's root brings in.
    fn names_of_the_root(&self, sources: &[Source]) -> BTreeMap<String, String> {
        let mut names = BTreeMap::new();
        for source in sources.iter().filter(|source| source.module.is_empty()) {
            for (path, name) in &source.found.uses {
                let path = path.strip_prefix(&["self".to_owned()]).unwrap_or(path);
                if !self.0.contains_key(&path[0]) {
                    continue; // Another crate's.
                }
                if name != "*" {
                    names.insert(name.clone(), path[0].clone());
                    continue;
                }
                let of = sources.iter().filter(|of| of.module.first() == path.first());
                let public = of.flat_map(|of| &of.found.public);
                names.extend(public.map(|name| (name.clone(), path[0].clone())));
            }
        }
        names
    }

    /// Every arrow that the layers do not allow, and everything in the layers that is not so.
    fn check(&self, layers: &[Layer]) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut above: BTreeSet<&str> = BTreeSet::from(["lib"]);
        for (modules, uses) in layers {
            for module in *modules {
                if !self.0.contains_key(*module) && *module != "lib" {
                    wrong.push(format!("there is no module {module}"));
                }
                if above.contains(module) && *module != "lib" {
                    wrong.push(format!("{module} stands twice"));
                }
            }
            for name in uses.iter().filter(|name| !above.contains(**name)) {
                wrong.push(format!("{modules:?} must not point down, to {name}"));
            }
            wrong.extend(self.check_layer(modules, uses));
            above.extend(*modules);
        }
        let missing = self.0.keys().filter(|module| !above.contains(module.as_str()));
        wrong.extend(missing.map(|module| format!("{module} has no line")));
        wrong
    }

    fn check_layer(&self, modules: &[&str], uses: &[&str]) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut used = BTreeSet::new();
        for module in modules {
            for (to, at) in self.0.get(*module).into_iter().flatten() {
                used.insert(to.as_str());
                if !modules.contains(&to.as_str()) && !uses.contains(&to.as_str()) {
                    wrong.push(format!("{module} must not use {to}: {at}"));
                }
            }
            let reached = self.reached(module);
            let apart = modules.iter().filter(|other| !reached.contains(**other));
            let apart: Vec<_> = apart.filter(|other| *other != module).collect();
            if !apart.is_empty() {
                wrong.push(format!("{module} is in no circle with {apart:?} any more"));
            }
        }
        let unused = uses.iter().filter(|name| !used.contains(**name));
        wrong.extend(unused.map(|name| format!("{modules:?} no longer use {name}")));
        wrong
    }

    /// What a module comes to by any number of arrows.
    fn reached(&self, module: &str) -> BTreeSet<&str> {
        let uses = |module| self.0.get(module).into_iter().flat_map(BTreeMap::keys);
        let mut reached = BTreeSet::new();
        let mut open: Vec<&str> = uses(module).map(String::as_str).collect();
        while let Some(module) = open.pop() {
            if reached.insert(module) {
                open.extend(uses(module).map(String::as_str));
            }
        }
        reached
    }

    /// The layers that would allow exactly what there is, to begin a table with.
    fn observed(&self) -> String {
        let mut left: BTreeSet<&str> = self.0.keys().map(String::as_str).collect();
        let mut text = String::new();
        // Next is whoever comes to nothing that is left, but perhaps in a circle.
        let is_next = |module: &&str, left: &BTreeSet<&str>| {
            let reached = self.reached(module).into_iter();
            reached.filter(|to| left.contains(to)).all(|to| self.reached(to).contains(module))
        };
        while let Some(first) = left.iter().copied().find(|module| is_next(module, &left)) {
            let circle = |other: &&str| {
                *other == first
                    || self.reached(first).contains(*other) && self.reached(other).contains(first)
            };
            let layer: Vec<&str> = left.iter().copied().filter(circle).collect();
            let of_layer = layer.iter().flat_map(|module| self.0[*module].keys());
            let uses: BTreeSet<&str> = of_layer.map(String::as_str).collect();
            let uses: Vec<&str> = uses.into_iter().filter(|to| !layer.contains(to)).collect();
            writeln!(text, "(&{layer:?}, &{uses:?}),").expect("a string takes it");
            left.retain(|module| !layer.contains(module));
        }
        text
    }
}

/// The module that a file is, from the crate's root on.
fn module_of(file: &str) -> Vec<String> {
    let path = file.strip_suffix(".rs").expect("a Rust source");
    let mut module: Vec<String> = path.split('/').map(str::to_owned).collect();
    let is_folder = matches!(module.last().map(String::as_str), Some("mod"));
    if is_folder || matches!(path, "lib" | "main") {
        module.pop();
    }
    module
}

/// The sources of a crate, by their paths under `src`. Binaries beside the crate's own are crates for
/// themselves.
fn sources(folder: &Path, under: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry of a folder").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
        let file = format!("{under}{name}");
        match path.is_dir() {
            true if file == "bin" => (),
            true => found.extend(sources(&path, &format!("{file}/"))),
            false if file.ends_with(".rs") => {
                found.push((file, std::fs::read_to_string(&path).expect("a source")));
            }
            false => (),
        }
    }
    found
}

#[test]
fn modules_use_only_what_their_arrows_allow() {
    let mut wrong = String::new();
    let mut large = 0;
    for entry in std::fs::read_dir(root().join("crates")).expect("crates/") {
        let folder = entry.expect("an entry of crates/").path();
        let name = folder.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
        let sources = sources(&folder.join("src"), "");
        if sources.len() <= SOURCES_MAX {
            continue;
        }
        large += 1;
        let modules = Modules::read(&sources);
        let layers = CRATES.iter().find(|(crate_name, _)| *crate_name == name);
        let complaints = modules.check(layers.map_or(&[], |(_, layers)| layers));
        if !complaints.is_empty() {
            let (complaints, observed) = (complaints.join("\n  "), modules.observed());
            writeln!(wrong, "crate '{name}':\n  {complaints}\nas it is:\n{observed}")
                .expect("a string takes it");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert_eq!(large, CRATES.len(), "a crate of CRATES is gone, or has become small");
}

fn planted(sources: &[(&str, &str)]) -> Modules {
    let owned = |(file, text): &(&str, &str)| ((*file).to_owned(), (*text).to_owned());
    Modules::read(&sources.iter().map(owned).collect::<Vec<_>>())
}

#[test]
fn an_arrow_against_the_table_is_found_however_it_is_written() {
    let layers: &[Layer] = &[(&["low"], &[]), (&["high"], &["low"])];
    let high = ("high/deep.rs", "use crate::low::A; pub struct B;");
    for (lib, low, is_allowed) in [
        ("", "", true),
        ("", "use crate::high::deep::B;", false),
        ("", "use crate::{high::deep::{B}};", false),
        ("", "fn f() { super::high::deep::g() }", false),
        ("pub use self::high::deep::B;", "use crate::B;", false),
        ("pub use high::*;", "use crate::B;", false),
        ("", "#[cfg(test)] mod tests { use crate::high::deep::B; }", true),
    ] {
        let modules = planted(&[("lib.rs", lib), ("low.rs", low), high]);
        assert_eq!(modules.check(layers).is_empty(), is_allowed, "{lib} {low}");
    }
}

#[test]
fn a_table_that_says_more_than_is_so_is_wrong() {
    let modules = planted(&[("lib.rs", ""), ("a.rs", "use crate::b::B;"), ("b.rs", "")]);
    let complaints = |layers: &[Layer]| modules.check(layers).join("; ");
    assert_eq!(complaints(&[(&["b"], &[]), (&["a"], &["b"])]), "");
    assert_eq!(complaints(&[(&["a"], &["b"]), (&["b"], &[])]), "[\"a\"] must not point down, to b");
    assert!(complaints(&[(&["b"], &[])]).contains("a has no line"));
    assert!(complaints(&[(&["a", "b"], &[])]).contains("b is in no circle with"));
    let layers: &[Layer] = &[(&["b"], &[]), (&["c"], &[]), (&["a"], &["b", "c"])];
    assert_eq!(complaints(layers), "there is no module c; [\"a\"] no longer use c");
    assert_eq!(modules.observed(), "(&[\"b\"], &[]),\n(&[\"a\"], &[\"b\"]),\n");
}

#[test]
fn a_circle_is_one_layer() {
    let modules = planted(&[
        ("lib.rs", ""),
        ("a.rs", "use crate::b::B;"),
        ("b/mod.rs", "use crate::a::A; use super::c::C;"),
        ("c.rs", "macro_rules! m { () => { $crate::Root } }"),
    ]);
    assert_eq!(modules.check(&[(&["c"], &["lib"]), (&["a", "b"], &["c"])]), [""; 0]);
    assert!(!modules.check(&[(&["c"], &["lib"]), (&["b"], &["c"]), (&["a"], &["b"])]).is_empty());
    assert_eq!(modules.observed(), "(&[\"c\"], &[\"lib\"]),\n(&[\"a\", \"b\"], &[\"c\"]),\n");
}
