//! Where a repository is.

use std::fmt::{self, Display};
use std::path::PathBuf;
use std::str::FromStr;

use object_store::path::Path;

use crate::error::Error;

/// A directory, or a bucket of an S3-compatible store with a prefix. Read from `/a/directory`, `./directory`,
/// `file:///a/directory` or `s3://bucket/prefix`; written as it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    given: String,
    pub(crate) place: Place,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Directory(PathBuf),
    Bucket { bucket: String, prefix: Path },
}

impl FromStr for Location {
    type Err = Error;

    fn from_str(given: &str) -> Result<Location, Error> {
        let wrong = |why: &str| {
            Error::Location(format!(
                "'{given}' is no place for backups{why}; give a directory (/a/directory, ./directory, \
                 file:///a/directory) or s3://bucket/prefix"
            ))
        };
        let place = match given.split_once("://") {
            Some(("file", path)) if path.starts_with('/') => Place::Directory(path.into()),
            Some(("file", _)) => return Err(wrong(": after file:// stands the whole path")),
            Some(("s3", rest)) => {
                let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
                // What a bucket may be called (Amazon S3 User Guide, "General purpose bucket naming rules").
                let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
                if !(3..=63).contains(&bucket.len()) || !bucket.chars().all(is_allowed) {
                    return Err(wrong(
                        ": a bucket's name is 3 to 63 letters, digits, dots and hyphens",
                    ));
                }
                let prefix = prefix.trim_end_matches('/');
                let prefix = Path::parse(prefix).map_err(|_| wrong(": its prefix is no path"))?;
                Place::Bucket { bucket: bucket.to_owned(), prefix }
            }
            Some((scheme, _)) => return Err(wrong(&format!(": '{scheme}' is not known"))),
            None if given.trim().is_empty() => return Err(wrong("")),
            // A slip such as s3:/bucket would be a directory that nobody looks for.
            None if given.split('/').next().is_some_and(|first| first.contains(':')) => {
                return Err(wrong(": write ./ before a directory whose name has a colon"));
            }
            None => Place::Directory(given.into()),
        };
        Ok(Location { given: given.to_owned(), place })
    }
}

impl Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.given)
    }
}
