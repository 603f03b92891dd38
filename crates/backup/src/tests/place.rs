//! What is typed: places, names, keys.

use std::path::PathBuf;

use super::{AT_MS, told};
use crate::error::Error;
use crate::key::Key;
use crate::location::{Location, Place};
use crate::name::BackupName;

/// Each row: what is given, and the place; of what is refused, a part of what is told.
#[test]
fn a_place_is_a_directory_or_a_bucket() {
    let directory = |path: &str| Ok(Place::Directory(PathBuf::from(path)));
    let bucket = |bucket: &str, prefix: &str| {
        Ok(Place::Bucket { bucket: bucket.into(), prefix: object_store::path::Path::from(prefix) })
    };
    for (given, expected) in [
        ("/var/backups/mayfly", directory("/var/backups/mayfly")),
        ("./backups", directory("./backups")),
        ("backups", directory("backups")),
        ("./a:b", directory("./a:b")),
        ("file:///var/backups", directory("/var/backups")),
        ("s3://my-bucket/some/prefix", bucket("my-bucket", "some/prefix")),
        ("s3://my-bucket/some/", bucket("my-bucket", "some")),
        ("s3://my-bucket", bucket("my-bucket", "")),
        ("file://backups", Err("the whole path")),
        ("s3://", Err("a bucket's name is 3 to 63")),
        ("s3://a b/c", Err("a bucket's name is 3 to 63")),
        ("s3://my-bucket/a//b", Err("its prefix is no path")),
        ("s3:/my-bucket", Err("write ./ before")),
        ("gs://my-bucket", Err("'gs' is not known; give a directory")),
        ("", Err("is no place for backups; give a directory")),
    ] {
        match (given.parse::<Location>(), expected) {
            (Ok(location), expected) => {
                assert_eq!(location.to_string(), given);
                assert_eq!(Ok(location.place), expected.map_err(str::to_owned), "{given}");
            }
            (Err(error), Err(part)) => {
                assert!(told(&error).contains(part), "{error}");
                assert!(
                    error.is_usage() && told(&error).ends_with("or s3://bucket/prefix"),
                    "{error}"
                );
            }
            (Err(error), Ok(place)) => panic!("{given} is {place:?}: {error}"),
        }
    }
}

#[test]
fn a_backup_is_named_for_the_second_of_its_cut() {
    let first = BackupName::of(AT_MS + 999).expect("a name");
    assert_eq!(first.to_string(), "2026-11-27T09-15-00Z");
    let mut names = vec![first.clone()];
    for _ in 0..10 {
        names.push(names[names.len() - 1].next());
    }
    names.push(BackupName::of(AT_MS + 1000).expect("a name"));
    assert_eq!(names[10].to_string(), "2026-11-27T09-15-00Z-11");
    assert!(names.is_sorted(), "{names:?}");
    for name in names {
        assert_eq!(name.to_string().parse(), Ok(name));
    }
    assert!(matches!(BackupName::of(u64::MAX), Err(Error::Time { .. })));
    for text in [
        "",
        "latest",
        "2026-11-27T09:15:00Z",
        "2026-11-27T09-15-00Z-1",
        "2026-11-27T09-15-00Z-02",
        "ä",
    ] {
        assert!(text.parse::<BackupName>().is_err(), "{text}");
    }
}

#[test]
fn a_key_is_read_as_it_was_written() {
    let text = Key::draw().expect("a key").to_text();
    assert!(text.starts_with("# "), "{text}");
    assert_eq!(Key::parse(&text).expect("a key").to_text(), text);
    assert!(Key::parse(&text.replace('\n', "\r\n")).is_ok());
    let short = text.trim_end().strip_suffix(|_| true).expect("a digit");
    for wrong in ["", "# only", short, &format!("{text}{text}"), "-----BEGIN PRIVATE KEY-----"] {
        let error = Key::parse(wrong).expect_err("no key");
        assert!(told(&error).starts_with("no key of backups"), "{error}");
    }
    assert_eq!(format!("{:?}", Key::draw().expect("a key")), "Key(…)");
}
