//! Real processes, of a shell.

use super::*;
use crate::timeline::RunClock;

fn supervisor(dir: &Path, line: &str, deeds: Vec<(u64, Deed)>) -> Supervisor {
    let spec = ProgramSpec {
        name: "program".to_owned(),
        kind: "program".to_owned(),
        words: vec!["sh".to_owned(), "-c".to_owned(), line.to_owned()],
        directory: dir.to_owned(),
        env: BTreeMap::from([("OWN".to_owned(), "own".to_owned())]),
        starts_at: None,
        restarts_after: None,
        ends_within: Duration::from_millis(500),
        events: Vec::new(),
    };
    let clock = RunClock::start(0);
    let ms = |(at, deed): (u64, Deed)| (Duration::from_millis(at), deed);
    Supervisor {
        spec,
        env: BTreeMap::from([("TOLD".to_owned(), "told".to_owned())]),
        log: dir.join("program.log"),
        deeds: deeds.into_iter().map(ms).collect(),
        begun: clock.begun(),
        diary: Diary::new(clock),
    }
}

/// Runs it until this holds of what is noted, ends it, and gives all that was noted.
async fn noted(
    supervisor: Supervisor,
    until: impl Fn(&[MomentKind]) -> bool,
) -> Vec<(MomentKind, String)> {
    let diary = supervisor.diary.clone();
    let (end, ended) = watch::channel(false);
    let running = tokio::spawn(supervisor.run(ended));
    let kinds = || diary.so_far().iter().map(|moment| moment.kind).collect::<Vec<_>>();
    timeout(Duration::from_secs(20), async {
        while !until(&kinds()) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .expect("it happens in time");
    end.send_replace(true);
    running.await.expect("no panic");
    diary.so_far().into_iter().map(|moment| (moment.kind, moment.told)).collect()
}

fn is_alive(pid: &str) -> bool {
    let pid = nix::unistd::Pid::from_raw(pid.trim().parse().expect("a number"));
    nix::sys::signal::kill(pid, None).is_ok()
}

#[tokio::test]
async fn a_program_is_killed_and_started_again_and_its_children_die_with_it() {
    use MomentKind::{Ended, Started, Told};
    let dir = tempfile::tempdir().expect("a directory");
    // A child that ignores what a terminal says, and outlives its parent unless it is killed.
    let line = "echo $OWN $TOLD; sleep 1000 & echo $!; wait";
    let deeds = vec![(0, Deed::Start), (2_000, Deed::Kill), (2_100, Deed::Start)];
    let supervisor = supervisor(dir.path(), line, deeds);
    // Each of the two says two lines before it is ended.
    let path = dir.path().to_owned();
    let has_said = move || last_lines(&path.join("program.log")).len() >= 4;
    let all = noted(supervisor, |kinds| kinds == [Started, Ended, Started] && has_said()).await;
    let said = last_lines(&dir.path().join("program.log"));
    let kinds: Vec<MomentKind> = all.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, [Started, Ended, Started, Told, Ended]);
    assert!(all[1].1.starts_with("was killed: signal: 9"), "{all:?}");
    assert_eq!((said[0].as_str(), said[2].as_str()), ("own told", "own told"));
    // A process that was killed is there until its new parent has seen it.
    timeout(Duration::from_secs(20), async {
        while is_alive(&said[1]) || is_alive(&said[3]) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .expect("both children are gone");
}

#[tokio::test]
async fn one_that_ends_by_itself_is_started_again_if_it_is_to_be() {
    use MomentKind::{Ended, Started};
    let dir = tempfile::tempdir().expect("a directory");
    let mut supervisor = supervisor(dir.path(), "exit 3", vec![(0, Deed::Start)]);
    supervisor.spec.restarts_after = Some(Duration::from_millis(20));
    let all = noted(supervisor, |kinds| kinds.starts_with(&[Started, Ended, Started, Ended])).await;
    assert_eq!(all[1], (Ended, "ended by itself: exit status: 3".to_owned()));
}

#[tokio::test]
async fn one_that_does_not_heed_its_signal_is_killed() {
    let dir = tempfile::tempdir().expect("a directory");
    let line = "trap '' TERM; echo ready; while :; do sleep 0.05; done";
    let supervisor = supervisor(dir.path(), line, vec![(0, Deed::Start)]);
    let path = dir.path().to_owned();
    let is_ready = move |_: &[MomentKind]| !last_lines(&path.join("program.log")).is_empty();
    let all = noted(supervisor, is_ready).await;
    let last = all.last().expect("it was noted");
    assert_eq!(last.1, "did not end within 500ms, and was killed");
}

#[tokio::test]
async fn one_that_is_not_there_is_told_of() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut spec = supervisor(dir.path(), "", Vec::new()).spec;
    assert_eq!(find(&spec), Ok(()));
    for (word, told) in [
        (
            "no-such-program",
            "program 'program': there is no 'no-such-program' in the directories of PATH",
        ),
        ("./none.sh", "program 'program': there is no file '"),
    ] {
        spec.words = vec![word.to_owned()];
        let error = find(&spec).expect_err(word);
        assert!(error.starts_with(told), "{error}");
    }
}
