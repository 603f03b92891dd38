//! The file that a bundle is written to.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use flate2::Compression;
use flate2::write::GzEncoder;

/// In the archive all stands below this.
const TOP: &str = "mayfly-support";
/// Only whoever made it reads it: it has names and addresses.
const MODE: u32 = 0o600;

/// A new file. It is removed again unless something is written to it.
pub struct Archive {
    file: File,
    path: Option<PathBuf>,
}

impl Archive {
    /// # Errors
    /// There is one, or none can be made there.
    pub fn create(path: &Path) -> anyhow::Result<Archive> {
        let shown = path.display();
        let opened = OpenOptions::new().write(true).create_new(true).mode(MODE).open(path);
        let file = opened.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => {
                anyhow::anyhow!("'{shown}' is there already; name another file with --out")
            }
            _ => anyhow::anyhow!("cannot write '{shown}': {error}; name another file with --out"),
        })?;
        Ok(Archive { file, path: Some(path.to_owned()) })
    }

    /// Each by its name and text.
    pub fn write(mut self, files: Vec<(String, String)>) -> anyhow::Result<()> {
        let shown = self.path.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
        self.put(files).with_context(|| format!("cannot write '{shown}'"))?;
        self.path = None;
        Ok(())
    }

    fn put(&mut self, files: Vec<(String, String)>) -> std::io::Result<()> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut builder = tar::Builder::new(GzEncoder::new(&mut self.file, Compression::default()));
        for (name, text) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(text.len() as u64);
            header.set_mode(MODE);
            header.set_mtime(since.as_secs());
            builder.append_data(&mut header, format!("{TOP}/{name}"), text.as_bytes())?;
        }
        builder.into_inner()?.finish()?.flush()
    }
}

impl Drop for Archive {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // Nobody wants half of one.
            let _ = std::fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::PermissionsExt;

    use flate2::read::GzDecoder;

    use super::*;

    #[test]
    fn an_archive_holds_what_was_put_into_it_and_replaces_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("b.tar.gz");
        let files = vec![("node-1/log.txt".to_owned(), "a line\n".to_owned())];
        Archive::create(&path).expect("a file").write(files).expect("it is written");
        let mode = std::fs::metadata(&path).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, MODE);
        let mut archive = tar::Archive::new(GzDecoder::new(File::open(&path).expect("a file")));
        let mut found = Vec::new();
        for entry in archive.entries().expect("entries") {
            let mut entry = entry.expect("an entry");
            let mut text = String::new();
            entry.read_to_string(&mut text).expect("text");
            found.push((entry.path().expect("a name").display().to_string(), text));
        }
        assert_eq!(found, [("mayfly-support/node-1/log.txt".to_owned(), "a line\n".to_owned())]);
        let told = Archive::create(&path).err().expect("it is there").to_string();
        assert!(told.contains("is there already"), "{told}");

        let other = dir.path().join("c.tar.gz");
        drop(Archive::create(&other).expect("a file"));
        assert!(!other.exists(), "nothing was written to it");
    }
}
