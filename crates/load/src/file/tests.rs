//! What files say, and what is said of wrong ones.

use std::time::Duration;

use super::*;

const PLAIN: &str = "\
thresholds = [\"lost == 0\"]
[phases]
warm_up = \"1s\"
measure = \"10s\"

[[queues]]
name = \"orders-{run}\"
lock_duration = \"30s\"

[[producers]]
to = \"orders-{run}\"
count = 2
rate = \"100 for 5s, 200 for 5s\"
body = \"64..4KiB\"
session_id = \"s-{number % 4}\"
properties = { colour = \"{red|green}\", size = 5, good = true, part = 0.5 }

[[consumers]]
from = \"orders-{run}\"
abandon = \"2%\"
";

fn parse(text: &str) -> Result<LoadFile, String> {
    LoadFile::parse(text, "f.toml", 0xab, None)
}

#[test]
fn a_file_says_all() {
    let file = parse(PLAIN).expect(PLAIN);
    assert_eq!(file.entities.queues[0].name, "orders-000000ab");
    assert_eq!((file.producers[0].count, file.producers[0].to.as_str()), (2, "orders-000000ab"));
    assert_eq!(file.producers[0].properties["size"], PropertyText::Long(5));
    assert_eq!(file.producers[0].properties["good"], PropertyText::Flag(true));
    assert_eq!(file.consumers[0].abandon.0, 0.02);
    assert_eq!(file.phases.sending(), Duration::from_secs(11));
    assert_eq!(file.thresholds[0].to_string(), "lost == 0");
}

#[test]
fn all_but_the_drain_is_as_long_as_was_asked_for() {
    let file = LoadFile::parse(PLAIN, "f.toml", 1, Some(1.0)).expect(PLAIN);
    assert_eq!(file.phases.warm_up, Duration::from_millis(100));
    assert_eq!(file.phases.measure, Duration::from_secs(1));
    assert_eq!(file.phases.drain, Duration::from_secs(30));
    let Pacing::Open(rate) = &file.producers[0].pacing else { panic!("a rate") };
    let mut due = rate.clone().due();
    // A tenth of a second at 100, half a second at 100, then at 200.
    assert_eq!(due.of(60).map(|at| (at * 1000.0).round()), Some(600.0));
    assert_eq!(due.of(62).map(|at| (at * 1000.0).round()), Some(610.0));
}

/// Without phases the longest profile is what is measured.
#[test]
fn a_profile_says_how_long_it_is() {
    let file = parse("[[producers]]\nto = \"q\"\nrate = \"5 for 3s, 7 for 4s\"").expect("a file");
    assert_eq!(file.phases.measure, Duration::from_secs(7));
}

#[test]
fn what_is_wrong_is_told_with_line_key_and_what_is_allowed() {
    for (text, told) in [
        ("", "f.toml: nobody sends or receives; write [[producers]] or [[consumers]]"),
        ("x = ", "f.toml:1: string values must be quoted"),
        ("\nthreshold = []", "f.toml:2: unknown key 'threshold', expected one of `name`"),
        (
            "thresholds = [\n\"lost == 0\",\n\"lsot == 0\"]",
            "f.toml:3: thresholds: 'lsot' is no figure; there are send.p99",
        ),
        ("[phases]\nmeasure = \"5\"", "f.toml:2: measure: '5' has no unit; write 5s or 5ms"),
        (
            "[phases]\nmeasure = \"0s\"\n[[producers]]\nto = \"q\"",
            "f.toml:2: phases.measure: allowed is more than 0s",
        ),
        ("[[producers]]\ncount = 5", "f.toml:1: missing field `to`"),
        ("[[producers]]\nto = \"q\"\ncount = 0", "f.toml:3: count: it is 0, allowed is 1 to 10000"),
        (
            "[[producers]]\nto = \"q\"\nwindow = 10\nbatch = 11",
            "f.toml:4: batch: it is 11, allowed is 1 to 10",
        ),
        (
            "[[producers]]\nto = \"q\"\nrate = \"5 for\"",
            "f.toml:3: rate: '5 for' is no rate; allowed is 500, or",
        ),
        ("[[producers]]\nto = \"q\"\nrate = true", "f.toml:3: rate: it is neither a whole number"),
        ("[[producers]]\nto = \"q\"\nbody = \"x\"", "f.toml:3: body: 'x' is no size; allowed is"),
        ("[[producers]]\nto = \"q\"\nttl = 5", "f.toml:3: ttl: invalid type: integer `5`"),
        ("[[producers]]\nto = \"\"", "f.toml:2: to: it names nothing; write a queue, a topic,"),
        (
            "[[producers]]\nto = \"q\"\nsession_id = \"{id}\"",
            "f.toml:3: session_id: '{id}' is no field; allowed is {run}",
        ),
        ("[[consumers]]\nfrom = \"q\"\nmode = \"peek\"", "f.toml:3: mode: unknown variant `peek`"),
        ("[[consumers]]\nfrom = \"q\"\nabandon = 2", "f.toml:3: abandon: invalid type: integer"),
        (
            "[[consumers]]\nfrom = \"q\"\nabandon = \"60%\"\ndefer = \"50%\"",
            "f.toml:2: from: what is abandoned, dead-lettered, deferred and left to lapse is more",
        ),
        (
            "[[consumers]]\nfrom = \"q\"\nmode = \"receive-and-delete\"\ndefer = \"50%\"",
            "f.toml:2: from: mode receive-and-delete settles nothing",
        ),
        (
            "[[consumers]]\nfrom = \"q\"\ncount = 9000\n[[consumers]]\nfrom = \"q\"\ncount = 9000",
            "f.toml:6: count: together 18000 and more, allowed is 10000",
        ),
        (
            "[[queues]]\nname = \"q\"\nlock_durtion = \"1s\"",
            "f.toml:3: queues[0].lock_durtion: no queue has it; did you mean lock_duration?",
        ),
        (
            "[[queues]]\nname = \"p\"\n[[queues]]\nname = \"q\"\nlock_duration = \"1h\"",
            "f.toml:3: queues[1] (q): LockDuration is 3600000 ms, allowed is more than 0",
        ),
    ] {
        let error = parse(text).expect_err(text);
        assert!(error.starts_with(told), "{text}:\n{error}\n{told}");
        assert!(!error.contains('\n'), "{error}");
    }
}
