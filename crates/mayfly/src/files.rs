//! Files that are there whole or not at all, and that only those may read who should.

use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::Path;

use anyhow::{Context, bail};

/// Permission of those who neither run the node nor are of the file's group: a group is given on
/// purpose, as for a certificate's key that several services use.
const OTHERS: u32 = 0o007;

/// Who may read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// It holds a secret.
    Owner,
    All,
}

/// What becomes of a file that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    Kept,
    Replaced,
}

impl Readers {
    fn mode(self) -> u32 {
        match self {
            Readers::Owner => 0o600,
            Readers::All => 0o644,
        }
    }
}

/// Writes a file with these readers, whatever those of one in its place were.
///
/// # Errors
/// One line that names the file; also where one is there that is to be kept.
pub fn write(path: &Path, text: &str, readers: Readers, existing: Existing) -> anyhow::Result<()> {
    // What this process makes may be for its owner alone (umask), and this is not.
    let set = |file: &File| file.set_permissions(Permissions::from_mode(readers.mode()));
    place(path, text, set, existing)
}

/// Replaces the file of a secret by one with the same owner, and the same readers but for everybody: whom
/// it is for goes on reading it, whoever replaces it. A link is followed.
///
/// # Errors
/// One line that names the file.
pub fn replace_private(path: &Path, text: &str, like: &Metadata) -> anyhow::Result<()> {
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let set = |file: &File| {
        let made = file.metadata()?;
        if (made.uid(), made.gid()) != (like.uid(), like.gid()) {
            fchown(file, Some(like.uid()), Some(like.gid()))?;
        }
        let mode = like.permissions().mode() & 0o777 & !OTHERS;
        file.set_permissions(Permissions::from_mode(mode))
    };
    place(&real, text, set, Existing::Replaced)?;
    // What is written next relies on this.
    let dir = real.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(dir)
        .and_then(|dir| dir.sync_all())
        .with_context(|| format!("cannot sync '{}'", dir.display()))
}

/// `set`: gives the file its owner and readers; until then it is its maker's alone.
fn place(
    path: &Path,
    text: &str,
    set: impl Fn(&File) -> io::Result<()>,
    existing: Existing,
) -> anyhow::Result<()> {
    // Added to the name, not in the place of its end: node-1.pem and node-1.key are written alike.
    let mut aside = path.as_os_str().to_owned();
    aside.push(".new");
    let aside = Path::new(&aside);
    let written = || -> io::Result<()> {
        // One that is left from before may be open to others.
        if let Err(error) = fs::remove_file(aside)
            && error.kind() != ErrorKind::NotFound
        {
            return Err(error);
        }
        let mut open = fs::OpenOptions::new();
        let mut file = open.create_new(true).write(true).mode(0o600).open(aside)?;
        set(&file)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        match existing {
            Existing::Replaced => fs::rename(aside, path),
            // A link is made only where nothing is.
            Existing::Kept => {
                fs::hard_link(aside, path).and_then(|()| fs::remove_file(aside)).inspect_err(|_| {
                    // Nothing is lost that anybody asked for.
                    let _ = fs::remove_file(aside);
                })
            }
        }
    };
    match written() {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            bail!("'{}' is there already", path.display())
        }
        written => written.with_context(|| format!("cannot write '{}'", path.display())),
    }
}

/// Makes a directory that only its owner may read, unless it is there.
pub fn private_dir(path: &Path) -> anyhow::Result<()> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.with_context(|| format!("cannot create '{}'", path.display()))
}

/// The text of a file that not everyone may read. The error names the file, and what to do.
pub fn read_private(path: &Path) -> Result<String, String> {
    let mut text = String::new();
    // Of the file that is read, whatever has the name by now.
    let read = check_private(path)?.read_to_string(&mut text);
    read.map_err(|error| format!("cannot read '{}': {error}", path.display()))?;
    Ok(text)
}

/// Opens a file that not everyone may read; the error as above.
pub fn check_private(path: &Path) -> Result<File, String> {
    let shown = path.display();
    let cannot = |error| format!("cannot read '{shown}': {error}");
    let file = File::open(path).map_err(cannot)?;
    match file.metadata().map_err(cannot)?.permissions().mode() & 0o777 {
        mode if mode & OTHERS == 0 => Ok(file),
        mode => {
            Err(format!("'{shown}' is open to everyone (mode {mode:03o}); run chmod o= '{shown}'"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row: what is there, with its mode; how it is written; what is there then.
    #[test]
    fn a_file_is_whole_and_read_by_whom_it_is_for() {
        for (before, readers, existing, after) in [
            (None, Readers::Owner, Existing::Kept, Ok(("new", 0o600))),
            (None, Readers::All, Existing::Replaced, Ok(("new", 0o644))),
            (Some(0o644), Readers::Owner, Existing::Replaced, Ok(("new", 0o600))),
            (Some(0o600), Readers::All, Existing::Kept, Err(("old", 0o600))),
        ] {
            let dir = tempfile::tempdir().expect("a directory");
            let path = dir.path().join("node.pem");
            if let Some(mode) = before {
                fs::write(&path, "old").expect("written");
                fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("changed");
            }
            // Left by a run that was ended.
            fs::write(dir.path().join("node.pem.new"), "half").expect("written");
            let written = write(&path, "new", readers, existing);
            if let Err(told) = &written {
                assert!(told.to_string().ends_with("node.pem' is there already"), "{told}");
            }
            let text = fs::read_to_string(&path).expect("a file");
            let mode = path.metadata().expect("a file").permissions().mode() & 0o777;
            let found = (text.as_str(), mode);
            assert_eq!(if written.is_ok() { Ok(found) } else { Err(found) }, after);
            assert_eq!(fs::read_dir(dir.path()).expect("a directory").count(), 1, "nothing else");
        }
    }
}
