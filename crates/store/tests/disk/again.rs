//! A node whose data are damaged or gone starts over, and never as who it was.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;

use domain::Rows;
use store::{DataDir, Error, Founders, Identity, LogStore, Provenance, RowStore};

use crate::damage::{cut, files, flip};
use crate::support::*;

const OURS: Identity = Identity { cluster_id: 7, node: 3 };

fn founders() -> Founders {
    [(1, 11), (2, 22), (3, 33)].into()
}

fn open(dir: &Path, rebuilt: bool) -> Result<(DataDir, LogStore, RowStore), Error> {
    let data = DataDir::open(dir, OURS, rebuilt)?;
    let (log, rows) = data.stores(&small(), rebuilt)?;
    Ok((data, log, rows))
}

/// A founder's directory with 50 entries and as many rows, all on disk.
fn founder(dir: &Path) {
    let (data, log, rows) = open(dir, true).expect("an empty directory");
    assert_eq!((data.provenance(), data.incarnation()), (Provenance::New, 0));
    data.settle(Provenance::Founder(founders())).expect("settled");
    for index in 1..=50 {
        append(&log, GROUP, vec![record(index, vec![index as u8; 200])]);
        let row = (message_key(index), Some(message(index)));
        rows.write(GROUP, vec![row], index, "mark".into()).expect("written");
    }
    rows.flush().expect("flushed");
}

fn wal(dir: &Path) -> std::path::PathBuf {
    files(&dir.join("log"), "log").pop().expect("a write-ahead log")
}

#[test]
fn sound_data_are_opened_as_they_were_left() {
    let dir = tempfile::tempdir().unwrap();
    founder(dir.path());
    for _ in 0..2 {
        let (data, log, rows) = open(dir.path(), true).unwrap();
        assert_eq!((data.provenance(), data.incarnation()), (Provenance::Founder(founders()), 0));
        assert_eq!(read_all(&log, GROUP, 1, 100, usize::MAX).len(), 50);
        assert_eq!(rows.applied(GROUP).unwrap().map(|(index, _)| index), Some(50));
    }
}

/// What is done to the files, and a part of the line that tells it.
type Case = (fn(&Path), &'static str);

const CASES: [Case; 10] = [
    (|dir| cut(&wal(dir), 300), "group 1: the log ends at index 4"),
    (|dir| flip(&wal(dir), 0.5), "log: damaged: "),
    (|dir| fs::remove_dir_all(dir.join("log")).unwrap(), "log: damaged: it is gone"),
    (|dir| fs::remove_dir_all(dir.join("rows")).unwrap(), "rows: damaged: it is gone"),
    (|dir| fs::remove_file(dir.join("log/CURRENT")).unwrap(), "log: damaged: it is gone"),
    (|dir| fs::remove_file(wal(dir)).unwrap(), "group 1: the log ends at index 0"),
    (|dir| cut(&files(&dir.join("rows"), "sst")[0], 10), "rows: damaged: "),
    (|dir| fs::remove_file(&files(&dir.join("rows"), "sst")[0]).unwrap(), "rows: damaged: "),
    (|dir| fs::write(dir.join("rows/CURRENT"), "garbage\n").unwrap(), "rows: damaged: "),
    (
        |dir| fs::write(dir.join("mayfly-damage"), "a bad row\n").unwrap(),
        "by the last run: a bad row",
    ),
];

#[test]
fn damaged_data_are_laid_aside_and_their_owner_speaks_under_another_id() {
    for (harm, told) in CASES {
        let dir = tempfile::tempdir().unwrap();
        founder(dir.path());
        harm(dir.path());

        let alone = open(dir.path(), false).map(|_| ()).expect_err(told);
        assert!(alone.to_string().contains(told), "{alone}, not {told}");
        assert!(alone.is_damage() && !alone.to_string().contains('\n'), "{alone}");
        assert!(!dir.path().join("damaged").exists(), "nobody would rebuild it");

        let (data, log, rows) = open(dir.path(), true).expect(told);
        let id = data.id();
        assert_eq!(data.provenance(), Provenance::Returned(founders()));
        assert_eq!((data.incarnation(), id == 0), (id, false));
        assert_eq!(read_all(&log, GROUP, 1, 100, usize::MAX), vec![]);
        assert!(log.vote(GROUP).unwrap().is_none() && rows.applied(GROUP).unwrap().is_none());
        assert!(dir.path().join("damaged").exists() && !dir.path().join("mayfly-damage").exists());
        drop((log, rows));

        let (data, ..) = open(dir.path(), true).expect("it is whole again");
        assert_eq!((data.id(), data.incarnation()), (id, id), "and stays who it is");
    }
}

#[test]
fn only_the_latest_damage_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    founder(dir.path());
    let mut seen = vec![0];
    for round in 0..3 {
        fs::write(dir.path().join("mayfly-damage"), "a bad row\n").unwrap();
        fs::write(dir.path().join("log").join("round"), [round]).unwrap();
        let (data, ..) = open(dir.path(), true).unwrap();
        assert!(!seen.contains(&data.incarnation()));
        seen.push(data.incarnation());
        assert_eq!(fs::read(dir.path().join("damaged/log/round")).unwrap(), [round]);
    }
    let kept = fs::read_dir(dir.path().join("damaged")).unwrap().count();
    assert_eq!(kept, 3, "log, marks and rows");
}

/// A crash at any step of starting over leaves the note or the new id, never empty data under
/// the old one.
#[test]
fn starting_over_can_be_interrupted_anywhere() {
    for gone in [&["log"][..], &["log", "log.marks"], &["log", "log.marks", "rows"]] {
        let dir = tempfile::tempdir().unwrap();
        founder(dir.path());
        fs::write(dir.path().join("mayfly-damage"), "a bad row\n").unwrap();
        fs::create_dir(dir.path().join("damaged")).unwrap();
        for name in gone {
            fs::rename(dir.path().join(name), dir.path().join("damaged").join(name)).unwrap();
        }
        let (data, log, _rows) = open(dir.path(), true).unwrap();
        assert_ne!(data.incarnation(), 0);
        assert_eq!(read_all(&log, GROUP, 1, 100, usize::MAX), vec![]);
    }
}

/// What lies aside may be all that is left of the data: a start that made empty databases in their
/// place and got no further is repeated without a look at those.
#[test]
fn what_was_laid_aside_outlasts_a_repeated_start() {
    let dir = tempfile::tempdir().unwrap();
    founder(dir.path());
    fs::write(dir.path().join("mayfly-damage"), "a bad row\n").unwrap();
    fs::write(dir.path().join("log/original"), "").unwrap();
    drop(open(dir.path(), true).unwrap());
    // As the start leaves it that is killed before it has another id.
    fs::write(dir.path().join("mayfly-damage"), "laid aside: a bad row\n").unwrap();
    let told = open(dir.path(), false).map(|_| ()).expect_err("nobody would rebuild it");
    assert!(told.to_string().contains("by the last run: a bad row"), "{told}");
    let (_, log, _rows) = open(dir.path(), true).unwrap();
    assert_eq!(read_all(&log, GROUP, 1, 100, usize::MAX), vec![]);
    assert!(dir.path().join("damaged/log/original").exists());
    assert!(!dir.path().join("mayfly-damage").exists());
}

#[test]
fn rows_older_than_the_log_begins_are_damage() {
    let dir = tempfile::tempdir().unwrap();
    founder(dir.path());
    copy(&dir.path().join("rows"), &dir.path().join("old"));
    {
        let (_, log, rows) = open(dir.path(), true).unwrap();
        append(&log, GROUP, vec![record(51, "more")]);
        rows.write(GROUP, vec![], 51, "mark".into()).unwrap();
        rows.flush().unwrap();
        log.purge(GROUP, 51, "mark".into());
        append(&log, GROUP, vec![record(52, "more")]); // The purge is written before it.
    }
    open(dir.path(), false).map(|_| ()).expect("all is well so far");
    fs::remove_dir_all(dir.path().join("rows")).unwrap();
    fs::rename(dir.path().join("old"), dir.path().join("rows")).unwrap();
    let error = open(dir.path(), false).map(|_| ()).expect_err("a hole").to_string();
    assert!(error.contains("group 1: the rows are those of index 50"), "{error}");
}

#[test]
fn a_directory_that_was_wiped_is_another_one() {
    let ids: Vec<u32> = (0..8)
        .map(|_| {
            let dir = tempfile::tempdir().unwrap();
            let (data, ..) = open(dir.path(), true).unwrap();
            assert_eq!(data.provenance(), Provenance::New);
            data.id()
        })
        .collect();
    assert!(ids.iter().all(|id| *id != 0));
    assert!((1..ids.len()).all(|at| !ids[..at].contains(&ids[at])), "{ids:?}");
}

/// The child meets the damage at work; the next start knows.
#[test]
fn child_reads_a_damaged_row() {
    let Some(dir) = child_dir() else { return };
    let (_, _log, rows) = open(&dir, true).unwrap();
    tell(&format!("{:?}", rows.group(GROUP).get(&message_key(7))));
}

#[test]
fn damage_met_at_work_stops_the_process_and_the_next_start_begins_anew() {
    let dir = tempfile::tempdir().unwrap();
    founder(dir.path());
    flip(&files(&dir.path().join("rows"), "sst")[0], 0.3);
    let output = spawn("again::child_reads_a_damaged_row", dir.path()).wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = errors.lines().find(|line| line.starts_with("mayfly: ")).expect(&errors);
    for part in ["rows: group 1", ".sst", "checksum mismatch"] {
        assert!(line.contains(part), "{line}");
    }
    let error = open(dir.path(), false).map(|_| ()).expect_err("noted").to_string();
    assert!(error.contains("by the last run") && error.contains("group 1"), "{error}");
    let (data, ..) = open(dir.path(), true).unwrap();
    assert_ne!(data.incarnation(), 0);
}

/// What is done to the file that says what the node is, and a part of the line that tells it.
const UNKNOWN: [Case; 5] = [
    (|dir| flip(&dir.join("mayfly-data"), 0.6), "mayfly-data: damaged: its checksum differs"),
    (|dir| cut(&dir.join("mayfly-data"), 20), "mayfly-data: damaged: "),
    (|dir| fs::write(dir.join("mayfly-data"), "").unwrap(), "mayfly-data: damaged: "),
    (|dir| fs::write(dir.join("mayfly-data"), [0xff; 80]).unwrap(), "it is no text"),
    (|dir| fs::remove_file(dir.join("mayfly-data")).unwrap(), "no 'mayfly-data' file"),
];

#[test]
fn a_node_that_cannot_tell_what_it_was_lays_all_aside_and_is_not_new() {
    for (harm, told) in UNKNOWN {
        let dir = tempfile::tempdir().unwrap();
        founder(dir.path());
        harm(dir.path());

        let alone = open(dir.path(), false).map(|_| ()).expect_err(told);
        assert!(alone.to_string().contains(told), "{alone}, not {told}");
        assert!(alone.is_damage() && !alone.to_string().contains('\n'), "{alone}");
        assert!(!dir.path().join("damaged").exists(), "nobody would rebuild it");

        // It may die between any two steps: what it opens next is never the old data.
        drop(DataDir::open(dir.path(), OURS, true).expect(told));
        let (data, log, rows) = open(dir.path(), true).expect(told);
        let id = data.id();
        assert_eq!((data.provenance(), data.incarnation()), (Provenance::Lost, id));
        assert_eq!(read_all(&log, GROUP, 1, 100, usize::MAX), vec![]);
        assert!(log.vote(GROUP).unwrap().is_none() && rows.applied(GROUP).unwrap().is_none());
        assert!(
            dir.path().join("damaged/log").exists() && dir.path().join("damaged/rows").exists()
        );
        drop((log, rows));

        let (data, ..) = open(dir.path(), true).expect("it is whole again");
        assert_eq!((data.provenance(), data.incarnation()), (Provenance::Lost, id));
        data.settle(Provenance::Returned(founders())).expect("settled");
        let again = DataDir::open(dir.path(), OURS, true).expect("it knows");
        assert_eq!(
            (again.provenance(), again.incarnation()),
            (Provenance::Returned(founders()), id)
        );
    }
}

/// The child has the databases open for as long as it is listened to.
#[test]
fn child_holds_the_data() {
    let Some(dir) = child_dir() else { return };
    let _open = open(&dir, true).unwrap();
    tell("open");
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

#[test]
fn data_that_are_in_use_are_not_laid_aside() {
    let dir = tempfile::tempdir().unwrap();
    founder(dir.path());
    let mut child = spawn("again::child_holds_the_data", dir.path());
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.ends_with("open")), "it opens them");
    fs::write(dir.path().join("mayfly-data"), "garbage").unwrap();
    let error = open(dir.path(), true).map(|_| ()).expect_err("in use");
    assert!(matches!(error, Error::Locked { .. }), "{error}");
    assert!(!dir.path().join("damaged").exists());
    drop(child.stdin.take());
    child.wait().unwrap();
    let (data, ..) = open(dir.path(), true).expect("free again");
    assert_eq!(data.provenance(), Provenance::Lost);
}
