//! Data that cannot be trusted any more. Whoever meets them leaves a note beside the databases and
//! stops the process; the next start finds the note, lays the data aside and has them rebuilt.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;

use crate::Error;

const NOTE: &str = "mayfly-damage";
/// What a note begins with from when all data lie aside: whatever a next start finds in their place
/// is of this one.
const BEGUN: &str = "laid aside: ";
/// Where data are laid aside. Only the latest are kept: they are for an operator to look at.
const ASIDE: &str = "damaged";

/// Stops the process, because a replica that cannot read its own data must not draw conclusions
/// from what it did not see. Its peers go on, and it is rebuilt from them. `db` is the database the
/// note is left beside.
pub(crate) fn stop(db: &Path, what: &str) -> ! {
    let noted = match db.parent().map(|dir| note(dir, what)) {
        Some(Err(error)) => format!(" (and no note can be left: {error})"),
        Some(Ok(())) | None => String::new(),
    };
    eprintln!("mayfly: this node's data cannot be read, it stops now: {what}{noted}");
    std::process::abort()
}

/// What was found, as the last process left it.
pub(crate) fn noted(dir: &Path) -> Result<Option<String>, Error> {
    let path = dir.join(NOTE);
    match fs::read(&path) {
        Ok(text) => {
            let text = String::from_utf8_lossy(&text);
            Ok(Some(text.strip_prefix(BEGUN).unwrap_or(&text).trim().to_owned()))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io(path, &error)),
    }
}

/// Leaves a note that a crash does not take.
pub(crate) fn note(dir: &Path, what: &str) -> Result<(), Error> {
    write_aside(dir, NOTE, format!("{what}\n").as_bytes())
}

pub(crate) fn remove_note(dir: &Path) -> Result<(), Error> {
    let path = dir.join(NOTE);
    let removed = fs::remove_file(&path).and_then(|()| fs::File::open(dir)?.sync_all());
    removed.map_err(|error| Error::io(path, &error))
}

/// Lays all data aside that a note is about, once: when a start that did so and got no further is
/// repeated, what it had begun is removed, and what lies aside stays. Returns where.
pub(crate) fn lay_data_aside(dir: &Path, names: &[&str], why: &str) -> Result<PathBuf, Error> {
    let noted = fs::read(dir.join(NOTE)).unwrap_or_default();
    if noted.starts_with(BEGUN.as_bytes()) {
        for name in names {
            remove(&dir.join(name)).map_err(|error| Error::io(dir.join(name), &error))?;
        }
        return Ok(dir.join(ASIDE));
    }
    note(dir, why)?;
    let aside = lay_aside(dir, names)?;
    note(dir, &format!("{BEGUN}{why}"))?;
    Ok(aside)
}

/// A file or a folder with all in it, if it is there.
fn remove(path: &Path) -> std::io::Result<()> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    removed.or_else(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    })
}

/// Lays entries of a data directory aside, in the place of those laid aside before. Returns where.
pub(crate) fn lay_aside(dir: &Path, names: &[&str]) -> Result<PathBuf, Error> {
    let aside = dir.join(ASIDE);
    let failed = |error: std::io::Error| Error::io(&aside, &error);
    fs::create_dir_all(&aside).map_err(failed)?;
    for name in names.iter().filter(|name| dir.join(name).exists()) {
        let to = aside.join(name);
        remove(&to).and_then(|()| fs::rename(dir.join(name), &to)).map_err(failed)?;
    }
    fs::File::open(dir).and_then(|dir| dir.sync_all()).map_err(failed)?;
    Ok(aside)
}

/// Refuses a database that another process has open: nothing of it is to be moved.
pub(crate) fn check_unused(database: &Path) -> Result<(), Error> {
    let lock = match fs::File::open(database.join("LOCK")) {
        Ok(lock) => lock,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::io(database, &error)),
    };
    // RocksDB locks the file from end to end.
    let mut held = libc::flock {
        l_type: libc::F_WRLCK as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    fcntl(&lock, FcntlArg::F_GETLK(&mut held))
        .map_err(|errno| Error::io(database, &errno.into()))?;
    match i32::from(held.l_type) == libc::F_UNLCK {
        true => Ok(()),
        false => Err(Error::Locked { path: database.to_owned() }),
    }
}

/// Written aside, synced, renamed: a crash leaves no half-written file.
pub(crate) fn write_aside(dir: &Path, name: &str, bytes: &[u8]) -> Result<(), Error> {
    let (aside, file) = (dir.join(format!("{name}.new")), dir.join(name));
    let write = || -> std::io::Result<()> {
        let mut out = fs::File::create(&aside)?;
        out.write_all(bytes)?;
        out.sync_all()?;
        fs::rename(&aside, &file)?;
        fs::File::open(dir)?.sync_all()
    };
    write().map_err(|error| Error::io(file.clone(), &error))
}
