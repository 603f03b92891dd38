//! Some hundred lives of a cluster. Without optimisation a tenth of them: it is ten times as slow.

use simulation::{Options, run, run_many};

/// Every promise holds for two hundred seeds, in which enough happened to matter.
#[test]
fn two_hundred_seeds_hold() {
    let seeds = if cfg!(debug_assertions) { 20 } else { 200 };
    let (report, violations) = run_many(0..seeds, &Options::default());
    println!("{report}");
    let shown: Vec<String> = violations.iter().take(5).map(ToString::to_string).collect();
    assert!(violations.is_empty(), "{} violations:\n{}", violations.len(), shown.join("\n"));
    assert_eq!(report.shortfalls(seeds), Vec::<String>::new());
}

/// Nodes, disks and clocks fail more often than anywhere; nothing acknowledged is lost, every
/// replica has its vote again, and where a majority was wiped nothing is decided.
#[test]
fn two_hundred_storms_hold() {
    let seeds = if cfg!(debug_assertions) { 20 } else { 200 };
    let (report, violations) = run_many(0..seeds, &Options::storm());
    println!("{report}");
    let shown: Vec<String> = violations.iter().take(5).map(ToString::to_string).collect();
    assert!(violations.is_empty(), "{} violations:\n{}", violations.len(), shown.join("\n"));
    assert!(report.returns > seeds && report.standstills > 0, "too tame: {report}");
}

/// Topics and sessions: a publish has the copies its rules demand, a session one holder at a time, who
/// gets its messages in order; whatever falls.
#[test]
fn topics_and_sessions_hold() {
    let seeds = if cfg!(debug_assertions) { 6 } else { 60 };
    let (report, violations) = run_many(0..seeds, &Options::topics());
    println!("{report}");
    let shown: Vec<String> = violations.iter().take(5).map(ToString::to_string).collect();
    assert!(violations.is_empty(), "{} violations:\n{}", violations.len(), shown.join("\n"));
    let sessions = [report.sessions_accepted, report.sessions_lapsed, report.sessions_released];
    let enough = report.copies > 100 * seeds && sessions.iter().all(|count| *count > seeds);
    assert!(enough, "too tame: {report}");
}

/// Votes for an old term, long under way, make a leader when a newer term has committed already. Nobody
/// follows it.
#[test]
fn a_leader_that_comes_too_late_breaks_nothing() {
    let options = Options { nodes: 5, swarm: true, ..Options::storm() };
    let held = run(20_264_406, &options);
    assert!(
        held.is_ok(),
        "{}",
        held.err().map(|violation| violation.to_string()).unwrap_or_default()
    );
}

/// The same seed is the same life, to the last row.
#[test]
fn the_same_seed_has_the_same_digest() {
    for seed in [1, 77, 4_711] {
        assert_eq!(run(seed, &Options::default()), run(seed, &Options::default()));
    }
    assert_eq!(run(5, &Options::topics()), run(5, &Options::topics()));
    let digest = |seed| run(seed, &Options::default()).map(|report| report.digest);
    assert_ne!(digest(1), digest(2));
}

/// A node that is alone elects itself, stamps and serves; of two, both are needed. A storm over two leaves
/// little time for that: 1.2 messages are completed in a life, so few lives say nothing.
#[test]
fn one_node_and_two_hold() {
    for nodes in [1, 2] {
        for life in [Options::default(), Options::storm()] {
            let (report, violations) = run_many(0..40, &Options { nodes, ..life });
            assert!(violations.is_empty(), "{nodes} nodes: {}", violations[0]);
            assert!(report.elections > 10 && report.completed > 10, "too tame: {report}");
        }
    }
}

/// Five nodes, one group, and one long life.
#[test]
fn a_long_life_holds() {
    let options = Options { ticks: 3_000, groups: 1, nodes: 5, ..Options::default() };
    let report = run(2_024, &options).unwrap_or_else(|violation| panic!("{violation}"));
    println!("{report}");
}
