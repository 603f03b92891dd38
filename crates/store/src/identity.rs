//! Whose data a directory holds.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::Error;

/// The format of everything below a data directory. Raised when an older binary could not read it.
const FORMAT: u32 = 1;
const FILE: &str = "mayfly-data";

/// What a data directory is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    pub cluster_id: u128,
    pub node: u64,
}

/// A node's data directory: `log/`, `rows/` and a small file that says whose they are.
#[derive(Clone, Debug)]
pub struct DataDir {
    path: PathBuf,
}

impl DataDir {
    /// Binds an empty directory to `wanted`, or checks that it is bound to it already. Refuses
    /// another cluster's, another node's or a newer version's, and files it does not know.
    pub fn open(path: &Path, wanted: Identity) -> Result<DataDir, Error> {
        fs::create_dir_all(path).map_err(|error| Error::io(path, &error))?;
        let file = path.join(FILE);
        match fs::read_to_string(&file) {
            Ok(text) => check(&file, &text, wanted)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => bind(path, wanted)?,
            Err(error) => return Err(Error::io(file, &error)),
        }
        Ok(DataDir { path: path.to_owned() })
    }

    /// Whose data a directory holds; `None` where there is none yet.
    pub fn identity(path: &Path) -> Result<Option<Identity>, Error> {
        let file = path.join(FILE);
        match fs::read_to_string(&file) {
            Ok(text) => read(&file, &text).map(Some),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io(file, &error)),
        }
    }

    /// Where the log is.
    pub fn log(&self) -> PathBuf {
        self.path.join("log")
    }

    /// Where the rows are.
    pub fn rows(&self) -> PathBuf {
        self.path.join("rows")
    }
}

fn text(identity: Identity) -> String {
    format!("format = {FORMAT}\ncluster = {:032x}\nnode = {}\n", identity.cluster_id, identity.node)
}

/// Written aside, synced, renamed: a crash leaves no half-written file.
fn bind(path: &Path, identity: Identity) -> Result<(), Error> {
    let (aside, file) = (path.join("mayfly-data.new"), path.join(FILE));
    for known in ["log", "rows"] {
        if path.join(known).exists() {
            let reason = format!("there is a '{known}' folder but no '{FILE}' file");
            return Err(Error::Corrupt { path: path.to_owned(), reason });
        }
    }
    let write = || -> std::io::Result<()> {
        let mut out = fs::File::create(&aside)?;
        out.write_all(text(identity).as_bytes())?;
        out.sync_all()?;
        fs::rename(&aside, &file)?;
        fs::File::open(path)?.sync_all()
    };
    write().map_err(|error| Error::io(path, &error))
}

fn read(file: &Path, found: &str) -> Result<Identity, Error> {
    let field = |name: &str| {
        let line = found.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = "));
        line.ok_or_else(|| Error::Corrupt {
            path: file.to_owned(),
            reason: format!("it has no line '{name} = …'"),
        })
    };
    let unreadable = |name: &str| Error::Corrupt {
        path: file.to_owned(),
        reason: format!("its '{name}' is not a number"),
    };
    let format: u32 = field("format")?.parse().map_err(|_| unreadable("format"))?;
    if format > FORMAT {
        return Err(Error::Newer { path: file.to_owned(), found: format, newest: FORMAT });
    }
    let cluster_id =
        u128::from_str_radix(field("cluster")?, 16).map_err(|_| unreadable("cluster"))?;
    let node: u64 = field("node")?.parse().map_err(|_| unreadable("node"))?;
    Ok(Identity { cluster_id, node })
}

fn check(file: &Path, found: &str, wanted: Identity) -> Result<(), Error> {
    let show = |identity: Identity| {
        format!("node {} of cluster {:032x}", identity.node, identity.cluster_id)
    };
    let found = read(file, found)?;
    match found == wanted {
        true => Ok(()),
        false => {
            Err(Error::Foreign { path: file.to_owned(), found: show(found), wanted: show(wanted) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: Identity = Identity { cluster_id: 7, node: 1 };

    #[test]
    fn a_directory_is_bound_once_and_recognised_after() {
        let dir = tempfile::tempdir().expect("a directory");
        DataDir::open(dir.path(), OURS).expect("an empty directory is bound");
        DataDir::open(dir.path(), OURS).expect("and recognised");
    }

    #[test]
    fn what_is_not_ours_is_refused_with_one_line() {
        let cases = [
            ("format = 1\ncluster = 08\nnode = 1\n", "belongs to node 1 of cluster"),
            ("format = 1\ncluster = 07\nnode = 2\n", "belongs to node 2"),
            ("format = 99\ncluster = 07\nnode = 1\n", "newer version (format 99"),
            ("format = 1\nclus", "no line 'cluster = …'"),
            ("", "no line 'format = …'"),
            ("format = x\n", "'format' is not a number"),
        ];
        for (text, expected) in cases {
            let dir = tempfile::tempdir().expect("a directory");
            fs::write(dir.path().join(FILE), text).expect("written");
            let error = DataDir::open(dir.path(), OURS).expect_err(text).to_string();
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn data_without_its_file_is_not_taken_for_empty() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::create_dir(dir.path().join("log")).expect("made");
        assert!(DataDir::open(dir.path(), OURS).is_err());
    }
}
