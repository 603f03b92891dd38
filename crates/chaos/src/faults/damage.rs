//! Harm to the files of a node that does not run.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

use crate::cluster::empty;

/// Smaller ones hold headers only.
const BYTES_MIN: u64 = 64;

/// Flips one bit of one file; which, or nothing where there is none.
pub fn flip_a_bit(data: &Path, random: &mut ChaCha8Rng) -> io::Result<Option<String>> {
    let Some((path, bytes)) = choose(data, random)? else { return Ok(None) };
    let (at, bit) = (random.random_range(0..bytes), random.random_range(0..8_u32));
    let mut file = File::options().read(true).write(true).open(&path)?;
    let mut byte = [0];
    file.seek(SeekFrom::Start(at))?;
    file.read_exact(&mut byte)?;
    byte[0] ^= 1 << bit;
    file.seek(SeekFrom::Start(at))?;
    file.write_all(&byte)?;
    Ok(Some(format!("flipped bit {bit} of byte {at} of {bytes} in {}", shown(data, &path))))
}

/// Cuts one file short; which, or nothing where there is none.
pub fn truncate(data: &Path, random: &mut ChaCha8Rng) -> io::Result<Option<String>> {
    let Some((path, bytes)) = choose(data, random)? else { return Ok(None) };
    let left = random.random_range(0..bytes);
    File::options().write(true).open(&path)?.set_len(left)?;
    Ok(Some(format!("cut {} to {left} of {bytes} bytes", shown(data, &path))))
}

pub fn wipe(data: &Path) -> io::Result<Option<String>> {
    empty(data)?;
    Ok(Some("wiped its disk".to_owned()))
}

fn shown(data: &Path, path: &Path) -> String {
    path.strip_prefix(data).unwrap_or(path).display().to_string()
}

/// A file in use and its size. Each kind is as likely, whether there is one of it or many.
fn choose(data: &Path, random: &mut ChaCha8Rng) -> io::Result<Option<(PathBuf, u64)>> {
    let mut kinds: std::collections::BTreeMap<String, Vec<(PathBuf, u64)>> = Default::default();
    for folder in [data.to_owned(), data.join("log"), data.join("rows")] {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries {
            let path = entry?.path();
            let bytes = fs::metadata(&path)?;
            if bytes.is_file() && bytes.len() >= BYTES_MIN && holds_data(&path) {
                let kind = match path.extension().and_then(OsStr::to_str) {
                    Some(extension) => format!("{}/{extension}", shown(data, &folder)),
                    None => shown(data, &folder),
                };
                kinds.entry(kind).or_default().push((path, bytes.len()));
            }
        }
    }
    for files in kinds.values_mut() {
        files.sort(); // A directory is read in any order.
    }
    let kinds: Vec<Vec<(PathBuf, u64)>> = kinds.into_values().collect();
    Ok(kinds.choose(random).and_then(|files| files.choose(random)).cloned())
}

/// RocksDB's diary and its locks hold nothing that anyone relies on. And data that call themselves a
/// newer version's wait for a person, as they should.
fn holds_data(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let passed_over = ["LOG", "LOCK", "IDENTITY", "OPTIONS", "mayfly-data"];
    !passed_over.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn data() -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a directory");
        fs::create_dir(dir.path().join("log")).expect("a folder");
        fs::write(dir.path().join("log/000004.log"), [0; 100]).expect("written");
        fs::write(dir.path().join("log/LOG"), [0; 1000]).expect("written");
        dir
    }

    #[test]
    fn one_bit_is_flipped_in_a_file_that_matters() {
        let dir = data();
        let told = flip_a_bit(dir.path(), &mut ChaCha8Rng::seed_from_u64(1)).expect("done");
        assert!(told.expect("there is a file").contains("log/000004.log"));
        let bytes = fs::read(dir.path().join("log/000004.log")).expect("read");
        assert_eq!(bytes.iter().map(|byte| byte.count_ones()).sum::<u32>(), 1);
        let diary = fs::read(dir.path().join("log/LOG")).expect("read");
        assert!(diary.iter().all(|byte| *byte == 0));
    }

    #[test]
    fn a_file_is_cut_and_a_disk_is_wiped() {
        let dir = data();
        truncate(dir.path(), &mut ChaCha8Rng::seed_from_u64(1)).expect("done").expect("a file");
        assert!(fs::metadata(dir.path().join("log/000004.log")).expect("there").len() < 100);
        wipe(dir.path()).expect("done");
        assert_eq!(fs::read_dir(dir.path()).expect("it stays").count(), 0);
        assert_eq!(truncate(dir.path(), &mut ChaCha8Rng::seed_from_u64(1)).expect("done"), None);
    }
}
