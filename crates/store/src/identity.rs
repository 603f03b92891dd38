//! Whose data a directory holds, and what their owner is to its cluster.
//!
//! A vote and an acknowledgement bind a node only as long as its disk remembers them. A directory
//! therefore has an id, drawn when it is made and again when its data are laid aside: a node that
//! lost its data is known by a directory id that no peer has met, and its replicas get ids of their
//! own.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use domain::{FEATURE_LEVEL_KNOWN, FEATURE_LEVEL_RULES_OF_0_2};
use parking_lot::Mutex;

use crate::{Error, LogStore, Options, RowStore, damage};

/// The format of everything below a data directory. Raised when an older binary could not read it,
/// or must not: one of format 1 would speak in its node's first name whatever was lost.
const FORMAT: u32 = 2;
/// Where the cluster's feature level is one that 0.1 does not know, which refuses this format. The file says the level
/// then, and versions that know less refuse it.
const FORMAT_OF_A_LEVEL: u32 = 3;
/// Before directories had ids and their files a sum.
const FORMAT_BEFORE_IDS: u32 = 1;
const FILE: &str = "mayfly-data";
const LOG: &str = "log";
const ROWS: &str = "rows";

/// What a data directory is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    pub cluster_id: u128,
    pub node: u64,
}

/// The ids of the directories a cluster was founded with, by node.
pub type Founders = BTreeMap<u64, u32>;

/// How a node came into its cluster, as far as its data directory knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Provenance {
    /// Not known yet: it is new with its cluster, or it lost its disk.
    New,
    /// It founded the cluster and has lost nothing since.
    Founder(Founders),
    /// It lost what it held; its replicas have ids made with the directory id since.
    Returned(Founders),
    /// It does not know any more, and will have returned once a node that knows the cluster tells it.
    /// It is not new: it founds nothing.
    Lost,
}

impl Provenance {
    pub fn founders(&self) -> Founders {
        match self {
            Provenance::New | Provenance::Lost => Founders::new(),
            Provenance::Founder(founders) | Provenance::Returned(founders) => founders.clone(),
        }
    }
}

/// What a node was heard to have written ([`LogDisk::synced_writes`](crate::LogDisk::synced_writes)), into which of its
/// data directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    pub directory_id: u32,
    pub writes: u64,
}

/// A node's data directory: `log/`, `rows/` and a small file that says whose they are. Clones share
/// it.
#[derive(Clone, Debug)]
pub struct DataDir {
    path: PathBuf,
    identity: Identity,
    state: Arc<Mutex<DirectoryState>>,
    founding: Arc<AtomicU32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct DirectoryState {
    /// Never 0.
    id: u32,
    provenance: Provenance,
    /// The cluster's feature level, once it is one that 0.1 does not know.
    level: u32,
    /// Of other nodes, as they said; kept with a level only.
    heard: BTreeMap<u64, Written>,
}

impl DirectoryState {
    /// Of a directory that nobody has met.
    fn new(provenance: Provenance) -> DirectoryState {
        DirectoryState { id: draw(), provenance, level: 0, heard: BTreeMap::new() }
    }
}

impl DataDir {
    /// Binds an empty directory to `wanted`, or checks that it is bound to it already. Refuses
    /// another cluster's, another node's or a newer version's, and files it does not know. Where
    /// `rebuilt` says that peers hold what this node holds, a file that is damaged, or gone from data,
    /// is laid aside with all of them.
    pub fn open(path: &Path, wanted: Identity, rebuilt: bool) -> Result<DataDir, Error> {
        fs::create_dir_all(path).map_err(|error| Error::io(path, &error))?;
        let state = match read(path, wanted) {
            Err(error @ Error::Corrupt { .. }) if rebuilt => lose(path, wanted, &error)?,
            read => read?,
        };
        let founding = Arc::new(AtomicU32::new(founding(&state.provenance)));
        let state = Arc::new(Mutex::new(state));
        Ok(DataDir { path: path.to_owned(), identity: wanted, state, founding })
    }

    /// What tells the founding of its cluster from every other under the same id, for as long as it is open; 0 where
    /// that is not known (yet).
    pub fn founding(&self) -> Arc<AtomicU32> {
        self.founding.clone()
    }

    /// What tells this directory from every other this node ever had.
    pub fn id(&self) -> u32 {
        self.state.lock().id
    }

    pub fn provenance(&self) -> Provenance {
        self.state.lock().provenance.clone()
    }

    /// The incarnation of the replicas whose data lie here: 0 for those of a founder, else the
    /// directory's id.
    pub fn incarnation(&self) -> u32 {
        let state = self.state.lock();
        match state.provenance {
            Provenance::New | Provenance::Founder(_) => 0,
            Provenance::Returned(_) | Provenance::Lost => state.id,
        }
    }

    /// Remembers how the node came into its cluster; on disk when this returns.
    pub fn settle(&self, provenance: Provenance) -> Result<(), Error> {
        let mut state = self.state.lock();
        let settled = DirectoryState { provenance, ..state.clone() };
        save(&self.path, self.identity, &settled)?;
        self.founding.store(founding(&settled.provenance), Ordering::Relaxed);
        *state = settled;
        Ok(())
    }

    /// Draws another id, because what was said under this one is lost; on disk when this returns.
    pub fn begin_anew(&self) -> Result<(), Error> {
        let provenance = match self.provenance() {
            unknown @ (Provenance::New | Provenance::Lost) => unknown,
            Provenance::Founder(founders) | Provenance::Returned(founders) => {
                Provenance::Returned(founders)
            }
        };
        let mut state = self.state.lock();
        let anew = DirectoryState { id: draw(), provenance, ..state.clone() };
        save(&self.path, self.identity, &anew)?;
        *state = anew;
        Ok(())
    }

    /// Whether there is nothing to note of a level.
    pub fn has_reached(&self, level: u32) -> bool {
        level < FEATURE_LEVEL_RULES_OF_0_2 || level <= self.state.lock().level
    }

    /// Notes that the cluster has a feature level: versions that do not know it refuse the directory from then on. On
    /// disk when this returns.
    pub fn reach_level(&self, level: u32) -> Result<(), Error> {
        let mut state = self.state.lock();
        let reached = DirectoryState { level: state.level.max(level), ..state.clone() };
        save(&self.path, self.identity, &reached)?;
        *state = reached;
        Ok(())
    }

    /// What other nodes were heard to have written, when this was last remembered.
    pub fn heard(&self) -> BTreeMap<u64, Written> {
        self.state.lock().heard.clone()
    }

    /// Remembers what other nodes have written, so that an old copy of one of their directories is known as that after a
    /// restart, too. A cluster whose directories 0.1 can read remembers nothing: that version would refuse the file. On
    /// disk when this returns.
    pub fn remember(&self, heard: BTreeMap<u64, Written>) -> Result<(), Error> {
        let mut state = self.state.lock();
        if state.level == 0 || state.heard == heard {
            return Ok(());
        }
        let remembering = DirectoryState { heard, ..state.clone() };
        save(&self.path, self.identity, &remembering)?;
        *state = remembering;
        Ok(())
    }

    /// Leaves a note that the data are not to be trusted, for the next start to lay them aside.
    pub fn distrust(&self, why: &str) -> Result<(), Error> {
        // Several may find out at once, and the note is written aside first.
        let _alone = self.state.lock();
        damage::note(&self.path, why)
    }

    /// Opens both databases. Where `rebuilt` says that peers hold what this node holds, data that
    /// are damaged, or less than was once synced, are laid aside for empty ones and another id:
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
        if !matches!(self.provenance(), Provenance::New | Provenance::Lost) {
            // No node settles its provenance before there are both.
            for database in [&log, &rows] {
                if !database.join("CURRENT").exists() {
                    return Err(corrupt(database, "it is gone"));
                }
            }
        }
        let log = LogStore::open(&log, options)?;
        log.check()?;
        let rows = RowStore::open(&rows, options)?;
        for (group, forgotten) in log.forgotten() {
            let applied = rows.applied(group)?.map_or(0, |(index, _)| index);
            if applied < forgotten {
                let reason = format!(
                    "group {group}: the rows are those of index {applied}, the log begins after \
                     {forgotten}"
                );
                return Err(corrupt(&self.path.join(ROWS), &reason));
            }
        }
        rows.forget_given_up(&log)?;
        Ok((log, rows))
    }

    /// Every step can be repeated: until the last, the note has the next start begin again.
    fn start_over(&self, why: &Error, options: &Options) -> Result<(LogStore, RowStore), Error> {
        let data = [LOG, "log.marks", ROWS, "incoming"];
        let aside = damage::lay_data_aside(&self.path, &data, &why.to_string())?;
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

/// See [`DataDir::founding`].
fn founding(provenance: &Provenance) -> u32 {
    match provenance.founders() {
        founders if founders.is_empty() => 0,
        founders => crc32fast::hash(listed(&founders).as_bytes()).max(1),
    }
}

/// As in the file.
fn listed(founders: &Founders) -> String {
    let founders = founders.iter().map(|(node, id)| format!("{node}:{id:08x}"));
    founders.collect::<Vec<String>>().join(" ")
}

/// A number nobody drew before, as good as certainly; not 0.
fn draw() -> u32 {
    rand::random::<u32>().max(1)
}

/// What the directory's file says, or that of one that is bound now.
fn read(path: &Path, wanted: Identity) -> Result<DirectoryState, Error> {
    let file = path.join(FILE);
    match fs::read_to_string(&file) {
        Ok(text) => check(&file, &text, wanted),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => bind(path, wanted),
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
            Err(corrupt(&file, "it is no text"))
        }
        Err(error) => Err(Error::io(file, &error)),
    }
}

/// Lays the file aside that does not say any more what the node is, for one that says so. The note
/// has the data follow it, and goes first: no step leaves data under an id that is not theirs, nor
/// a directory that looks like a new node's.
fn lose(path: &Path, identity: Identity, why: &Error) -> Result<DirectoryState, Error> {
    for database in [LOG, ROWS] {
        damage::check_unused(&path.join(database))?;
    }
    damage::note(path, &why.to_string())?;
    damage::lay_aside(path, &[FILE])?;
    let state = DirectoryState::new(Provenance::Lost);
    save(path, identity, &state)?;
    Ok(state)
}

fn bind(path: &Path, identity: Identity) -> Result<DirectoryState, Error> {
    for known in [LOG, ROWS] {
        if path.join(known).exists() {
            let reason = format!("there is a '{known}' folder but no '{FILE}' file");
            return Err(corrupt(path, &reason));
        }
    }
    let state = DirectoryState::new(Provenance::New);
    save(path, identity, &state)?;
    Ok(state)
}

fn save(path: &Path, identity: Identity, state: &DirectoryState) -> Result<(), Error> {
    damage::write_aside(path, FILE, text(identity, state).as_bytes())
}

fn text(identity: Identity, state: &DirectoryState) -> String {
    let (standing, founders) = match &state.provenance {
        Provenance::New => ("new", None),
        Provenance::Founder(founders) => ("founder", Some(founders)),
        Provenance::Returned(founders) => ("returned", Some(founders)),
        Provenance::Lost => ("lost", None),
    };
    let founders = founders.map(listed).unwrap_or_default();
    let format = if state.level == 0 { FORMAT } else { FORMAT_OF_A_LEVEL };
    let mut text = format!(
        "format = {format}\n{}birth = {:08x}\nstanding = {standing}\nfounders = {}\n",
        named(identity),
        state.id,
        founders
    );
    if state.level > 0 {
        let heard =
            |(node, of): (&u64, &Written)| format!("{node}:{:08x}:{}", of.directory_id, of.writes);
        let heard: Vec<String> = state.heard.iter().map(heard).collect();
        let _ = writeln!(text, "level = {}\nheard = {}", state.level, heard.join(" ")); // As below.
    }
    let sum = crc32fast::hash(text.as_bytes());
    let _ = writeln!(text, "sum = {sum:08x}"); // Writing to a string cannot fail.
    text
}

/// The lines that say whose the directory is.
fn named(Identity { cluster_id, node }: Identity) -> String {
    format!("cluster = {cluster_id:032x}\nnode = {node}\n")
}

fn foreign(file: &Path, found: Identity, wanted: Identity) -> Error {
    let show = |identity: Identity| {
        format!("node {} of cluster {:032x}", identity.node, identity.cluster_id)
    };
    Error::Foreign { path: file.to_owned(), found: show(found), wanted: show(wanted) }
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

    fn state(&self) -> Result<DirectoryState, Error> {
        let id = self.number("birth", |text| u32::from_str_radix(text, 16).ok())?;
        let founders = self.number("founders", founders)?;
        let provenance = match self.get("standing")? {
            "new" => Provenance::New,
            "founder" => Provenance::Founder(founders),
            "returned" => Provenance::Returned(founders),
            "lost" => Provenance::Lost,
            _ => return Err(corrupt(self.file, "its 'standing' is unknown")),
        };
        Ok(DirectoryState { id, ..DirectoryState::new(provenance) })
    }

    fn state_of_a_level(&self) -> Result<DirectoryState, Error> {
        let level = self.number("level", |text| text.parse().ok())?;
        if level > FEATURE_LEVEL_KNOWN {
            let known = FEATURE_LEVEL_KNOWN;
            return Err(Error::LevelUnknown { path: self.file.into(), level, known });
        }
        // Not every version that knows levels wrote down whom it heard.
        let heard = match self.get("heard") {
            Ok(_) => self.number("heard", heard)?,
            Err(_) => BTreeMap::new(),
        };
        Ok(DirectoryState { level, heard, ..self.state()? })
    }

    fn sum(&self) -> Result<u32, Error> {
        self.number("sum", |text| u32::from_str_radix(text, 16).ok())
    }

    /// What the sum is of.
    fn covered(&self) -> &str {
        &self.text[..self.text.find("sum = ").unwrap_or_default()]
    }

    fn check_sum(&self) -> Result<(), Error> {
        match crc32fast::hash(self.covered().as_bytes()) == self.sum()? {
            true => Ok(()),
            false => Err(corrupt(self.file, "its checksum differs")),
        }
    }

    /// Whom a damaged file names beside `wanted`; not where its sum says that the names are what is
    /// damaged, and `wanted` was there.
    fn stranger(&self, wanted: Identity) -> Option<Identity> {
        let found = self.identity().ok().filter(|found| *found != wanted)?;
        let ours = self.covered().replace(&named(found), &named(wanted));
        let was_ours = self.sum().is_ok_and(|sum| crc32fast::hash(ours.as_bytes()) == sum);
        (!was_ours).then_some(found)
    }
}

fn founders(text: &str) -> Option<Founders> {
    let founder = |pair: &str| {
        let (node, id) = pair.split_once(':')?;
        Some((node.parse().ok()?, u32::from_str_radix(id, 16).ok()?))
    };
    text.split_whitespace().map(founder).collect()
}

fn heard(text: &str) -> Option<BTreeMap<u64, Written>> {
    let heard = |of: &str| {
        let mut parts = of.split(':');
        let (node, id, writes) = (parts.next()?, parts.next()?, parts.next()?);
        let directory_id = u32::from_str_radix(id, 16).ok()?;
        Some((node.parse().ok()?, Written { directory_id, writes: writes.parse().ok()? }))
    };
    text.split_whitespace().map(heard).collect()
}

/// Damage of somebody else's file is theirs to hear of.
fn check(file: &Path, text: &str, wanted: Identity) -> Result<DirectoryState, Error> {
    let fields = Fields { file, text };
    fields.check(wanted).map_err(|error| match fields.stranger(wanted) {
        Some(found) if error.is_damage() => foreign(file, found, wanted),
        _ => error,
    })
}

impl Fields<'_> {
    fn check(&self, wanted: Identity) -> Result<DirectoryState, Error> {
        let format: u32 = self.number("format", |text| text.parse().ok())?;
        if format > FORMAT_OF_A_LEVEL {
            let newest = FORMAT_OF_A_LEVEL;
            return Err(Error::Newer { path: self.file.into(), found: format, newest });
        }
        // Also where the format says that there is none: what says so may be what is damaged.
        if format >= FORMAT || self.text.contains("sum = ") {
            self.check_sum()?;
        }
        let found = self.identity()?;
        if found != wanted {
            return Err(foreign(self.file, found, wanted));
        }
        match format {
            // It has lost nothing that anybody noticed.
            FORMAT_BEFORE_IDS => {
                let provenance = Provenance::Founder(Founders::new());
                Ok(DirectoryState { id: 1, ..DirectoryState::new(provenance) })
            }
            FORMAT => self.state(),
            FORMAT_OF_A_LEVEL => self.state_of_a_level(),
            _ => Err(corrupt(self.file, "no version ever wrote its 'format'")),
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
        DataDir::open(dir.path(), OURS, true).expect("an empty directory is bound");
        DataDir::open(dir.path(), OURS, true).expect("and recognised");
    }

    #[test]
    fn versions_before_refuse_the_directory_of_a_cluster_whose_level_they_do_not_know() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join(FILE);
        let data = DataDir::open(dir.path(), OURS, true).expect("an empty directory is bound");
        let begins =
            |with: &str| fs::read_to_string(&file).is_ok_and(|text| text.starts_with(with));
        let (known, first) = (FEATURE_LEVEL_KNOWN, FEATURE_LEVEL_RULES_OF_0_2);
        assert!(data.has_reached(first - 1) && !data.has_reached(first) && begins("format = 2\n"));
        data.reach_level(first).expect("noted");
        assert!(data.has_reached(first) && begins("format = 3\n"));
        data.settle(Provenance::Founder(Founders::new())).expect("settled");
        let again = DataDir::open(dir.path(), OURS, true).expect("it is known");
        assert!(again.has_reached(first), "{again:?}");
        let heard = BTreeMap::from([(2, Written { directory_id: 0xab, writes: 1_234_567 })]);
        data.remember(heard.clone()).expect("remembered");
        assert_eq!(DataDir::open(dir.path(), OURS, true).expect("it is known").heard(), heard);
        data.reach_level(known + 1).expect("noted");
        let error = DataDir::open(dir.path(), OURS, true).expect_err("it is not").to_string();
        assert!(error.contains(&format!("feature level {}", known + 1)), "{error}");
        assert!(!error.contains('\n'), "{error}");
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
            ("format = 2\ncluster = 07\nnode = 2\nsum = 00000000\n", "belongs to node 2"),
        ];
        for (text, expected) in cases {
            let dir = tempfile::tempdir().expect("a directory");
            fs::write(dir.path().join(FILE), text).expect("written");
            let error = DataDir::open(dir.path(), OURS, false).expect_err(text).to_string();
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn what_a_node_is_survives_and_no_bit_of_it_changes_unnoticed() {
        let founders = Founders::from([(1, 7), (2, u32::MAX)]);
        let written = Written { directory_id: 0x0a0b_0c0d, writes: u64::MAX };
        let heard = BTreeMap::from([(1, written), (3, Written { writes: 0, ..written })]);
        let level = FEATURE_LEVEL_RULES_OF_0_2;
        for (provenance, level, heard) in [
            (Provenance::New, 0, BTreeMap::new()),
            (Provenance::Founder(founders.clone()), 0, BTreeMap::new()),
            (Provenance::Returned(founders.clone()), level, BTreeMap::new()),
            (Provenance::Founder(founders), level, heard),
            (Provenance::Returned(Founders::new()), 0, BTreeMap::new()),
            (Provenance::Lost, 0, BTreeMap::new()),
        ] {
            let state = DirectoryState { id: 0x9f3c_11aa, provenance, level, heard };
            let file = Path::new("file");
            let text = text(OURS, &state);
            assert_eq!(check(file, &text, OURS).expect("it is right"), state);
            for (position, bit) in
                (0..text.len()).flat_map(|byte| (0..8).map(move |bit| (byte, bit)))
            {
                let mut flipped = text.clone().into_bytes();
                flipped[position] ^= 1 << bit;
                let Ok(flipped) = String::from_utf8(flipped) else { continue };
                // A digit of the sum in capitals says the same.
                let found = check(file, &flipped, OURS);
                assert!(found.map_or(true, |found| found == state), "{flipped}");
            }
        }
    }

    #[test]
    fn a_directory_of_format_1_belongs_to_a_founder() {
        let text = format!("format = 1\ncluster = {:032x}\nnode = 1\n", 7);
        let state = check(Path::new("file"), &text, OURS).expect("it is known");
        assert_eq!(state.provenance, Provenance::Founder(Founders::new()));
    }

    #[test]
    fn data_without_its_file_is_not_taken_for_empty() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::create_dir(dir.path().join("log")).expect("made");
        assert!(DataDir::open(dir.path(), OURS, false).is_err());
    }

    /// Only what may be this node's own is laid aside.
    #[test]
    fn a_damaged_file_that_names_another_is_refused_and_a_damaged_name_is_not_believed() {
        let founder = Provenance::Founder(Founders::from([(1, 7)]));
        let state = DirectoryState { id: 7, ..DirectoryState::new(founder) };
        let (ours, theirs) = (text(OURS, &state), text(Identity { node: 2, ..OURS }, &state));
        let (file, damaged) = (Path::new("file"), |text: &str| text.replace("founder", "f0under"));
        for (text, told) in [
            (damaged(&ours), "checksum differs"),
            (ours.replace("node = 1", "node = 3"), "checksum differs"),
            (ours.replace("cluster = 0", "cluster = 8"), "checksum differs"),
            (ours.replace("node = 1", "nod\u{7f} = 1"), "checksum differs"),
            (damaged(&theirs), "belongs to node 2"),
            (theirs.replace("format = 2", "format = x"), "belongs to node 2"),
            (theirs[..theirs.len() - 9].to_owned(), "belongs to node 2"),
        ] {
            let error = check(file, &text, OURS).expect_err(&text);
            assert!(error.to_string().contains(told), "{error}, not {told}: {text}");
            assert_eq!(error.is_damage(), told == "checksum differs");
        }
    }
}
