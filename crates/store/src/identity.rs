//! Whose data a directory holds, and what their owner is to its cluster.
//!
//! A vote and an acknowledgement bind a node only as long as its disk remembers them. A directory
//! therefore has a birth, drawn when it is made and again when its data are laid aside: whoever
//! lost them is known by a birth that nobody has met, and speaks in a name of its own.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::{Error, LogStore, Options, RowStore, damage};

/// The format of everything below a data directory. Raised when an older binary could not read it,
/// or must not: one of format 1 would speak in its node's first name whatever was lost.
const FORMAT: u32 = 2;
/// Before there were births, and a sum.
const FORMAT_BEFORE_BIRTHS: u32 = 1;
const FILE: &str = "mayfly-data";
const LOG: &str = "log";
const ROWS: &str = "rows";

/// What a data directory is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    pub cluster_id: u128,
    pub node: u64,
}

/// The births of the directories a cluster was founded with, by node.
pub type Births = BTreeMap<u64, u32>;

/// What a node is to its cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Not known yet: it is new with its cluster, or it lost its disk.
    New,
    /// It founded the cluster and has lost nothing since.
    Founder(Births),
    /// It lost what it held, and speaks under its birth since.
    Returned(Births),
}

impl Standing {
    pub fn births(&self) -> Births {
        match self {
            Standing::New => Births::new(),
            Standing::Founder(births) | Standing::Returned(births) => births.clone(),
        }
    }
}

/// A node's data directory: `log/`, `rows/` and a small file that says whose they are. Clones share
/// it.
#[derive(Clone, Debug)]
pub struct DataDir {
    path: PathBuf,
    identity: Identity,
    life: Arc<Mutex<Life>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Life {
    /// Never 0.
    birth: u32,
    standing: Standing,
}

impl DataDir {
    /// Binds an empty directory to `wanted`, or checks that it is bound to it already. Refuses
    /// another cluster's, another node's or a newer version's, and files it does not know.
    pub fn open(path: &Path, wanted: Identity) -> Result<DataDir, Error> {
        fs::create_dir_all(path).map_err(|error| Error::io(path, &error))?;
        let file = path.join(FILE);
        let life = match fs::read_to_string(&file) {
            Ok(text) => check(&file, &text, wanted)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => bind(path, wanted)?,
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                return Err(corrupt(&file, "it is no text"));
            }
            Err(error) => return Err(Error::io(file, &error)),
        };
        let life = Arc::new(Mutex::new(life));
        Ok(DataDir { path: path.to_owned(), identity: wanted, life })
    }

    /// What tells this directory from every other this node ever had.
    pub fn birth(&self) -> u32 {
        self.life.lock().birth
    }

    pub fn standing(&self) -> Standing {
        self.life.lock().standing.clone()
    }

    /// Which of its node's lives speaks from here: 0 for a founder, else the birth.
    pub fn incarnation(&self) -> u32 {
        let life = self.life.lock();
        match life.standing {
            Standing::New | Standing::Founder(_) => 0,
            Standing::Returned(_) => life.birth,
        }
    }

    /// Remembers what the node is to its cluster; on disk when this returns.
    pub fn settle(&self, standing: Standing) -> Result<(), Error> {
        let mut life = self.life.lock();
        let settled = Life { birth: life.birth, standing };
        save(&self.path, self.identity, &settled)?;
        *life = settled;
        Ok(())
    }

    /// Takes another birth, because what was said under this one is lost; on disk when this returns.
    pub fn begin_anew(&self) -> Result<(), Error> {
        let standing = match self.standing() {
            Standing::New => Standing::New,
            Standing::Founder(births) | Standing::Returned(births) => Standing::Returned(births),
        };
        let anew = Life { birth: draw(), standing };
        save(&self.path, self.identity, &anew)?;
        *self.life.lock() = anew;
        Ok(())
    }

    /// Opens both databases. Where `rebuilt` says that peers hold what this node holds, data that
    /// are damaged, or less than was once synced, are laid aside for empty ones and another birth:
    /// what was said from them is not repeated and not contradicted.
    pub fn stores(&self, options: &Options, rebuilt: bool) -> Result<(LogStore, RowStore), Error> {
        if let Some(what) = damage::noted(&self.path)? {
            let path = self.path.clone();
            let error = Error::Corrupt { path, reason: format!("by the last run: {what}") };
            return if rebuilt { self.start_over(&error, options) } else { Err(error) };
        }
        match self.open_both(options) {
            Err(error) if rebuilt && error.is_damage() => self.start_over(&error, options),
            opened => opened,
        }
    }

    fn open_both(&self, options: &Options) -> Result<(LogStore, RowStore), Error> {
        let (log, rows) = (self.path.join(LOG), self.path.join(ROWS));
        if self.standing() != Standing::New {
            // Nobody settles what he is before there are both.
            for database in [&log, &rows] {
                if !database.join("CURRENT").exists() {
                    return Err(corrupt(database, "it is gone"));
                }
            }
        }
        let log = LogStore::open(&log, options)?;
        log.check()?;
        let rows = RowStore::open(&rows, options)?;
        for (shard, forgotten) in log.forgotten() {
            let applied = rows.applied(shard)?.map_or(0, |(index, _)| index);
            if applied < forgotten {
                let reason = format!(
                    "shard {shard}: the rows are those of index {applied}, the log begins after \
                     {forgotten}"
                );
                return Err(corrupt(&self.path.join(ROWS), &reason));
            }
        }
        Ok((log, rows))
    }

    /// Every step can be repeated: until the last, the note has the next start begin again.
    fn start_over(&self, why: &Error, options: &Options) -> Result<(LogStore, RowStore), Error> {
        damage::note(&self.path, &why.to_string())?;
        let aside = damage::lay_aside(&self.path, &[LOG, "log.marks", ROWS, "incoming"])?;
        let stores = {
            let log = LogStore::open(&self.path.join(LOG), options)?;
            (log, RowStore::open(&self.path.join(ROWS), options)?)
        };
        self.begin_anew()?;
        damage::remove_note(&self.path)?;
        tracing::error!(
            "{why}; the node's data now lie in '{}', and it is rebuilt from its peers",
            aside.display()
        );
        Ok(stores)
    }
}

fn corrupt(path: &Path, reason: &str) -> Error {
    Error::Corrupt { path: path.to_owned(), reason: reason.to_owned() }
}

/// A number nobody drew before, as good as certainly; not 0.
fn draw() -> u32 {
    rand::random::<u32>().max(1)
}

fn bind(path: &Path, identity: Identity) -> Result<Life, Error> {
    for known in [LOG, ROWS] {
        if path.join(known).exists() {
            let reason = format!("there is a '{known}' folder but no '{FILE}' file");
            return Err(corrupt(path, &reason));
        }
    }
    let life = Life { birth: draw(), standing: Standing::New };
    save(path, identity, &life)?;
    Ok(life)
}

fn save(path: &Path, identity: Identity, life: &Life) -> Result<(), Error> {
    damage::write_aside(path, FILE, text(identity, life).as_bytes())
}

fn text(identity: Identity, life: &Life) -> String {
    let Identity { cluster_id, node } = identity;
    let (standing, births) = match &life.standing {
        Standing::New => ("new", None),
        Standing::Founder(births) => ("founder", Some(births)),
        Standing::Returned(births) => ("returned", Some(births)),
    };
    let births = births.into_iter().flatten();
    let births: Vec<String> = births.map(|(node, birth)| format!("{node}:{birth:08x}")).collect();
    let mut text = format!(
        "format = {FORMAT}\ncluster = {cluster_id:032x}\nnode = {node}\nbirth = {:08x}\n\
         standing = {standing}\nfounders = {}\n",
        life.birth,
        births.join(" ")
    );
    let sum = crc32fast::hash(text.as_bytes());
    let _ = writeln!(text, "sum = {sum:08x}"); // Writing to a string cannot fail.
    text
}

/// The fields of the file, one a line.
struct Fields<'a> {
    file: &'a Path,
    text: &'a str,
}

impl Fields<'_> {
    fn get(&self, name: &str) -> Result<&str, Error> {
        let line = self.text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" ="));
        let value = line.map(str::trim_start);
        value.ok_or_else(|| corrupt(self.file, &format!("it has no line '{name} = …'")))
    }

    fn number<T>(&self, name: &str, read: impl FnOnce(&str) -> Option<T>) -> Result<T, Error> {
        let unreadable = || corrupt(self.file, &format!("its '{name}' is not a number"));
        read(self.get(name)?).ok_or_else(unreadable)
    }

    fn identity(&self) -> Result<Identity, Error> {
        let cluster_id = self.number("cluster", |text| u128::from_str_radix(text, 16).ok())?;
        let node = self.number("node", |text| text.parse().ok())?;
        Ok(Identity { cluster_id, node })
    }

    fn life(&self) -> Result<Life, Error> {
        let birth = self.number("birth", |text| u32::from_str_radix(text, 16).ok())?;
        let births = self.number("founders", births)?;
        let standing = match self.get("standing")? {
            "new" => Standing::New,
            "founder" => Standing::Founder(births),
            "returned" => Standing::Returned(births),
            _ => return Err(corrupt(self.file, "its 'standing' is unknown")),
        };
        Ok(Life { birth, standing })
    }

    fn check_sum(&self) -> Result<(), Error> {
        let wanted = self.number("sum", |text| u32::from_str_radix(text, 16).ok())?;
        let covered = self.text.find("sum = ").unwrap_or_default();
        match crc32fast::hash(&self.text.as_bytes()[..covered]) == wanted {
            true => Ok(()),
            false => Err(corrupt(self.file, "its checksum differs")),
        }
    }
}

fn births(text: &str) -> Option<Births> {
    let birth = |pair: &str| {
        let (node, birth) = pair.split_once(':')?;
        Some((node.parse().ok()?, u32::from_str_radix(birth, 16).ok()?))
    };
    text.split_whitespace().map(birth).collect()
}

fn check(file: &Path, text: &str, wanted: Identity) -> Result<Life, Error> {
    let fields = Fields { file, text };
    let format: u32 = fields.number("format", |text| text.parse().ok())?;
    if format > FORMAT {
        return Err(Error::Newer { path: file.to_owned(), found: format, newest: FORMAT });
    }
    // Also where the format says that there is none: what says so may be what is damaged.
    if format == FORMAT || text.contains("sum = ") {
        fields.check_sum()?;
    }
    let found = fields.identity()?;
    let show = |identity: Identity| {
        format!("node {} of cluster {:032x}", identity.node, identity.cluster_id)
    };
    if found != wanted {
        let (found, wanted) = (show(found), show(wanted));
        return Err(Error::Foreign { path: file.to_owned(), found, wanted });
    }
    match format {
        // It has lost nothing that anybody noticed.
        FORMAT_BEFORE_BIRTHS => Ok(Life { birth: 1, standing: Standing::Founder(Births::new()) }),
        FORMAT => fields.life(),
        _ => Err(corrupt(file, "no version ever wrote its 'format'")),
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
            ("format = 0\ncluster = 07\nnode = 1\n", "no version ever wrote its 'format'"),
            ("format = 2\ncluster = 07\nnode = 1\nsum = 00000000\n", "checksum differs"),
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
    fn what_a_node_is_survives_and_no_bit_of_it_changes_unnoticed() {
        let births = Births::from([(1, 7), (2, u32::MAX)]);
        for standing in [
            Standing::New,
            Standing::Founder(births.clone()),
            Standing::Returned(births),
            Standing::Returned(Births::new()),
        ] {
            let life = Life { birth: 0x9f3c_11aa, standing };
            let file = Path::new("file");
            let text = text(OURS, &life);
            assert_eq!(check(file, &text, OURS).expect("it is right"), life);
            for (position, bit) in
                (0..text.len()).flat_map(|byte| (0..8).map(move |bit| (byte, bit)))
            {
                let mut flipped = text.clone().into_bytes();
                flipped[position] ^= 1 << bit;
                let Ok(flipped) = String::from_utf8(flipped) else { continue };
                // A digit of the sum in capitals says the same.
                let found = check(file, &flipped, OURS);
                assert!(found.map_or(true, |found| found == life), "{flipped}");
            }
        }
    }

    #[test]
    fn a_directory_of_format_1_belongs_to_a_founder() {
        let text = format!("format = 1\ncluster = {:032x}\nnode = 1\n", 7);
        let life = check(Path::new("file"), &text, OURS).expect("it is known");
        assert_eq!(life.standing, Standing::Founder(Births::new()));
    }

    #[test]
    fn data_without_its_file_is_not_taken_for_empty() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::create_dir(dir.path().join("log")).expect("made");
        assert!(DataDir::open(dir.path(), OURS).is_err());
    }
}
