//! Loads that ship with the program, by their short names: `mayfly load list`, `mayfly load show`.

use std::process::ExitCode;

use crate::terminal;

/// A load file that is in the program.
pub(super) struct ShippedLoad {
    pub name: &'static str,
    pub text: &'static str,
}

macro_rules! shipped {
    ($($name:literal),*) => {
        &[$(ShippedLoad {
            name: $name,
            text: include_str!(concat!("../../../../../benches/loads/", $name, ".toml")),
        }),*]
    };
}

/// All of `benches/loads`.
const SHIPPED: &[ShippedLoad] = shipped!["compare", "expiry", "lifecycle", "lifetime", "sessions"];

impl ShippedLoad {
    pub fn find(name: &str) -> Option<&'static ShippedLoad> {
        SHIPPED.iter().find(|load| load.name == name)
    }

    /// What the file says of itself before anything else, on one line.
    fn question(&self) -> String {
        let lines = self.text.lines().map_while(|line| line.strip_prefix("# "));
        lines.collect::<Vec<_>>().join(" ")
    }
}

#[derive(Debug, clap::Args)]
pub(super) struct ShowArgs {
    /// The load, as 'mayfly load list' has it
    #[arg(value_name = "NAME")]
    name: String,
}

/// Each with the question it answers.
pub(super) fn list() -> anyhow::Result<ExitCode> {
    let rows = SHIPPED.iter().map(|load| vec![load.name.to_owned(), load.question()]);
    terminal::line(terminal::table(&["load", "asks"], &[], rows.collect()))?;
    Ok(ExitCode::SUCCESS)
}

/// The file itself, to begin one's own with.
pub(super) fn show(args: &ShowArgs) -> anyhow::Result<ExitCode> {
    match ShippedLoad::find(&args.name) {
        Some(load) => terminal::line(load.text.trim_end())?,
        None => return Err(terminal::usage(unknown(&args.name))),
    }
    Ok(ExitCode::SUCCESS)
}

/// What to say of a name that is none.
pub(super) fn unknown(name: &str) -> String {
    let names: Vec<&str> = SHIPPED.iter().map(|load| load.name).collect();
    format!("'{name}' is no load that ships; there are {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn every_file_is_shipped_and_says_what_it_asks() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/loads");
        let mut names: Vec<String> = std::fs::read_dir(dir)
            .expect("benches/loads")
            .map(|entry| entry.expect("an entry").path())
            .filter(|path| path.extension().is_some_and(|of| of == "toml"))
            .filter_map(|path| path.file_stem()?.to_str().map(str::to_owned))
            .collect();
        names.sort();
        let shipped: Vec<&str> = SHIPPED.iter().map(|load| load.name).collect();
        assert_eq!(names, shipped);
        for load in SHIPPED {
            assert!(load.question().ends_with('?'), "{}: {}", load.name, load.question());
            let parsed = load::LoadFile::parse(load.text, load.name, 1, None);
            assert_eq!(parsed.expect(load.name).name, load.name);
        }
    }
}
