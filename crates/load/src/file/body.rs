//! What bodies are made of: noise of drawn sizes, or texts that stand in files beside the load file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Deserializer, de};

use crate::distribution::{Scalar, Sizes};

/// Of all the files of one load together.
const BYTES_MAX: u64 = 64 << 20;
const ALLOWED: &str =
    "allowed is a size, \"file order.json\", \"lines of orders.ndjson\" or \"files of payloads\"";

/// As written.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum BodyText {
    Drawn(Sizes),
    From(BodyFile),
}

/// Files that bodies are taken from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BodyFile {
    /// The whole of it, every time.
    Whole(String),
    /// One of its lines, drawn anew for every message.
    Lines(String),
    /// One of a directory's files, drawn anew for every message.
    Directory(String),
}

/// What a producer's bodies are made of.
#[derive(Clone, Debug, PartialEq)]
pub enum Bodies {
    /// Noise of so many bytes.
    Drawn(Sizes),
    /// One of these.
    Texts(Arc<Vec<Bytes>>),
}

impl Bodies {
    /// Of noise, the most that may be needed.
    pub fn noise_max(&self) -> usize {
        match self {
            Bodies::Drawn(sizes) => sizes.max(),
            Bodies::Texts(_) => 0,
        }
    }
}

impl BodyFile {
    /// As it was written.
    pub fn text(&self) -> String {
        match self {
            BodyFile::Whole(path) => format!("file {path}"),
            BodyFile::Lines(path) => format!("lines of {path}"),
            BodyFile::Directory(path) => format!("files of {path}"),
        }
    }

    /// Reads the bodies; paths begin where the load file stands.
    fn read(&self, beside: &Path) -> Result<Vec<Bytes>, String> {
        match self {
            BodyFile::Whole(path) => Ok(vec![read(&beside.join(path))?.into()]),
            BodyFile::Lines(path) => {
                let bytes = Bytes::from(read(&beside.join(path))?);
                let lines = bytes.split(|byte| *byte == b'\n');
                let lines = lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line));
                Ok(lines
                    .filter(|line| !line.is_empty())
                    .map(|line| bytes.slice_ref(line))
                    .collect())
            }
            BodyFile::Directory(path) => {
                let path = beside.join(path);
                let cannot = |error| format!("cannot read '{}': {error}", path.display());
                let mut files: Vec<PathBuf> = Vec::new();
                for entry in std::fs::read_dir(&path).map_err(cannot)? {
                    let found = entry.map_err(cannot)?.path();
                    files.extend(found.is_file().then_some(found));
                }
                // The same seed draws the same.
                files.sort();
                files.iter().map(|path| read(path).map(Bytes::from)).collect()
            }
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let cannot = |error| format!("cannot read '{}': {error}", path.display());
    let bytes = std::fs::metadata(path).map_err(cannot)?.len();
    if bytes > BYTES_MAX {
        return Err(format!("'{}' has {bytes} bytes, allowed is {BYTES_MAX}", path.display()));
    }
    std::fs::read(path).map_err(cannot)
}

impl std::str::FromStr for BodyText {
    type Err = String;

    fn from_str(text: &str) -> Result<BodyText, String> {
        let file = |path: &str| path.trim().to_owned();
        if let Some(path) = text.strip_prefix("file ") {
            return Ok(BodyText::From(BodyFile::Whole(file(path))));
        }
        if let Some(path) = text.strip_prefix("lines of ") {
            return Ok(BodyText::From(BodyFile::Lines(file(path))));
        }
        if let Some(path) = text.strip_prefix("files of ") {
            return Ok(BodyText::From(BodyFile::Directory(file(path))));
        }
        text.parse().map(BodyText::Drawn).map_err(|told: String| format!("{told}; {ALLOWED}"))
    }
}

impl<'de> Deserialize<'de> for BodyText {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<BodyText, D::Error> {
        let text = match Scalar::deserialize(from)? {
            Scalar::Number(number) => number.to_string(),
            Scalar::Text(text) => text,
        };
        text.parse().map_err(de::Error::custom)
    }
}

/// The bodies of every file that a load names. Other generators are sent them: the files stand here.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attachments {
    /// Read from there; without it, only what was sent is there.
    beside: Option<PathBuf>,
    bodies: BTreeMap<String, Arc<Vec<Bytes>>>,
    bytes: u64,
}

impl Attachments {
    /// Of all bodies together.
    pub const BYTES_MAX: usize = BYTES_MAX as usize;

    /// Of a load file of that path.
    pub fn beside(file: &Path) -> Attachments {
        let beside = file.parent().unwrap_or(Path::new("")).to_owned();
        Attachments { beside: Some(beside), ..Attachments::default() }
    }

    /// What was sent of another generator's: one body of what it was written as.
    ///
    /// # Errors
    /// It is too much.
    pub fn add(&mut self, of: &str, body: Bytes) -> Result<(), String> {
        self.bytes += body.len() as u64 + size_of::<Bytes>() as u64;
        if self.bytes > 2 * BYTES_MAX {
            return Err(format!("body: the files have more than {BYTES_MAX} bytes"));
        }
        Arc::make_mut(self.bodies.entry(of.to_owned()).or_default()).push(body);
        Ok(())
    }

    /// Each body, by what it was written as.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Bytes)> {
        self.bodies
            .iter()
            .flat_map(|(of, bodies)| bodies.iter().map(move |body| (of.as_str(), body)))
    }

    /// The bodies of a file, read if they were not yet.
    pub(super) fn find(&mut self, of: &BodyFile) -> Result<Arc<Vec<Bytes>>, String> {
        let name = of.text();
        if let Some(bodies) = self.bodies.get(&name) {
            return Ok(bodies.clone());
        }
        let beside = self.beside.as_deref().ok_or_else(|| format!("'{name}' was not sent"))?;
        let bodies = of.read(beside)?;
        if bodies.is_empty() {
            return Err(format!("'{name}' names nothing to send: it is empty"));
        }
        self.bytes += bodies.iter().map(|body| body.len() as u64).sum::<u64>();
        if self.bytes > BYTES_MAX {
            return Err(format!("the files have {} bytes, allowed is {BYTES_MAX}", self.bytes));
        }
        let bodies = Arc::new(bodies);
        self.bodies.insert(name, bodies.clone());
        Ok(bodies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_stand_in_files_beside_the_load_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = |name: &str| dir.path().join(name);
        std::fs::write(path("orders.ndjson"), "one\r\n\ntwo\nthree").expect("a file");
        std::fs::create_dir(path("payloads")).expect("a directory");
        std::fs::write(path("payloads/b"), "B").expect("a file");
        std::fs::write(path("payloads/a"), "A").expect("a file");
        std::fs::write(path("empty"), "\n").expect("a file");
        let mut here = Attachments::beside(&path("load.toml"));
        for (text, bodies) in [
            ("lines of orders.ndjson", vec!["one", "two", "three"]),
            ("file orders.ndjson", vec!["one\r\n\ntwo\nthree"]),
            ("files of payloads", vec!["A", "B"]),
        ] {
            let BodyText::From(file) = text.parse().expect(text) else { panic!("{text}") };
            assert_eq!(file.text(), text);
            assert_eq!(*here.find(&file).expect(text), bodies, "{text}");
        }
        // And at another generator, as they are sent.
        let mut there = Attachments::default();
        for (of, body) in here.iter() {
            there.add(of, body.clone()).expect("they are small");
        }
        let lines = BodyFile::Lines("orders.ndjson".to_owned());
        assert_eq!(there.find(&lines), here.find(&lines));
        for (file, told) in [
            (BodyFile::Lines("empty".to_owned()), "is empty"),
            (BodyFile::Whole("gone".to_owned()), "cannot read '"),
            (BodyFile::Directory("orders.ndjson".to_owned()), "cannot read '"),
        ] {
            let error = here.find(&file).expect_err(told);
            assert!(error.contains(told), "{error}");
            assert!(there.find(&file).expect_err(told).contains("was not sent"));
        }
        assert!("x".parse::<BodyText>().expect_err("no body").contains("lines of orders.ndjson"));
    }
}
