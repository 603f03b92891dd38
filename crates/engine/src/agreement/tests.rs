//! Time as a number: tables of readings and scripts of rounds, then any minority of wrong clocks
//! over any network.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const SECOND: i64 = 1_000_000;
const MS: i64 = 1_000;
const YEAR: i64 = 365 * 86_400 * SECOND;
const OFFSET_MAX: i64 = 500 * MS;

fn voters(nodes: &[u64]) -> BTreeSet<u64> {
    nodes.iter().copied().collect()
}

/// Zeros off by so much, read just now.
fn reading(wall: i64, clock: i64, error_us: i64) -> Reading {
    Reading { wall_zero_us: wall, clock_zero_us: clock, error_us, read_at_us: 0 }
}

/// Node 1, which has read these; the first row is its own.
fn heard(rows: &[(i64, i64, i64)]) -> Agreement {
    let mut agreement = Agreement::new(1, OFFSET_MAX as u64);
    for (node, (wall, clock, error)) in (1..).zip(rows) {
        agreement.readings.insert(node, reading(*wall, *clock, *error));
    }
    agreement
}

/// TIME-2: wall and clock of each node in ms, as node 1 reads them with an error of 5 ms; who may
/// stamp.
#[test]
fn time_2_who_stamps_has_a_majority_of_wall_clocks_near() {
    const FAR: i64 = YEAR / MS;
    for (rows, of, may) in [
        // Alone it is its own majority; without answers it is none.
        (&[(0, 0)][..], 1, &[1][..]),
        (&[(0, 0)], 2, &[]),
        (&[(0, 0)], 3, &[]),
        // Two of three are enough, whether the third is down or wrong.
        (&[(0, 0), (300, 300)], 3, &[1, 2]),
        (&[(0, 0), (300, 300), (FAR, FAR)], 3, &[1, 2]),
        (&[(FAR, FAR), (0, 0), (5, 5)], 3, &[2, 3]),
        (&[(-FAR, -FAR), (0, 0), (5, 5)], 3, &[2, 3]),
        // Two that differ cannot know which is right.
        (&[(0, 0), (FAR, FAR)], 2, &[]),
        (&[(0, 0), (FAR, FAR), (-FAR, -FAR)], 3, &[]),
        // The bound holds with the error of both readings.
        (&[(0, 0), (490, 490)], 3, &[1, 2]),
        (&[(0, 0), (491, 491)], 3, &[]),
        // A middle one has both sides near, the sides have only it.
        (&[(0, 0), (400, 400), (-400, -400)], 3, &[1, 2, 3]),
        (&[(0, 0), (400, 400), (-400, -400)], 5, &[1]),
        // A wall clock that was set while the clock runs on: leadership leaves it all the same.
        (&[(FAR, 0), (0, 0), (0, 0)], 3, &[2, 3]),
        // Wall clocks agree, but this clock was set before they did.
        (&[(0, FAR), (0, 0), (0, 0)], 3, &[2, 3]),
        (&[(0, FAR), (0, FAR), (0, FAR)], 3, &[]),
    ] {
        let rows: Vec<_> =
            rows.iter().map(|(wall, clock)| (wall * MS, clock * MS, 5 * MS)).collect();
        let agreement = heard(&rows);
        let group = (1..=of).collect();
        let agreed: Vec<u64> = (1..=of).filter(|node| agreement.agrees(*node, &group)).collect();
        assert_eq!(agreed, may, "{rows:?} of {of}");
    }
}

#[test]
fn each_group_has_a_majority_of_its_own() {
    let agreement = heard(&[(0, 0, 0), (0, 0, 0), (YEAR, YEAR, 0)]);
    assert!(agreement.agrees(1, &voters(&[1, 2, 4])));
    assert!(!agreement.agrees(1, &voters(&[1, 3, 4])));
    // Who is no voter has no vote, not even its own.
    assert!(agreement.agrees(1, &voters(&[2])));
    assert!(!agreement.agrees(1, &voters(&[2, 4])));
    assert!(!agreement.agrees(1, &voters(&[])));
}

#[test]
fn of_late_readings_the_sharpest_counts_unless_a_clock_was_set() {
    let read = |wall, error_us, read_at_us| Reading { read_at_us, ..reading(wall, wall, error_us) };
    for (what, kept, later, counts) in [
        ("sharper", read(9, 50, 0), read(0, 5, SECOND), true),
        ("as sharp", read(9, 50, 0), read(0, 50, SECOND), true),
        ("less sharp", read(9, 50, 0), read(0, 60, SECOND), false),
        ("less sharp, after a while", read(9, 50, 0), read(0, 60, 5 * SECOND), true),
        ("set meanwhile", read(9, 50, 0), read(200, 60, SECOND), true),
    ] {
        let mut agreement = heard(&[(0, 0, 0)]);
        agreement.read_peer(2, kept);
        agreement.read_peer(2, later);
        assert_eq!(agreement.readings[&2] == later, counts, "{what}");
    }
    let mut agreement = heard(&[(0, 0, 0), (0, 0, 0)]);
    agreement.forget(10 * SECOND);
    assert_eq!(agreement.readings.len(), 2);
    agreement.forget(10 * SECOND + 1);
    assert_eq!(agreement.readings.len(), 0, "who does not answer agrees with nobody");
}

/// Why a majority must be right throughout: two wrong clocks of five at any moment, and yet three
/// readings that count, while the others are silent. It ends with the age of the oldest.
#[test]
fn a_wrong_clock_that_changes_place_is_believed_until_readings_are_old() {
    let (off, group) = (-1_400 * MS, voters(&[1, 2, 3, 4, 5]));
    let mut agreement = heard(&[(off, off, 0), (0, 0, 0), (off, off, 0)]);
    assert!(!agreement.agrees(1, &group));
    // Node 3 was mended and is silent; node 2 went wrong.
    let later = Reading { read_at_us: READING_AGE_MAX_US, ..reading(off, off, 0) };
    agreement.read_own(later);
    agreement.read_peer(2, later);
    agreement.forget(READING_AGE_MAX_US);
    assert!(agreement.agrees(1, &group));
    agreement.forget(READING_AGE_MAX_US + 1);
    assert!(!agreement.agrees(1, &group));
}

#[test]
fn an_answer_is_from_half_way_and_off_by_at_most_half() {
    let shown = Shown { wall_us: 5_000, clock_us: 4_000 };
    let expected =
        Reading { wall_zero_us: 4_850, clock_zero_us: 3_850, error_us: 51, read_at_us: 201 };
    assert_eq!(Reading::of(shown, 100, 201), expected);
    // Whatever a peer says.
    for wall_us in [i64::MIN, i64::MAX] {
        let told = Reading::of(Shown { wall_us, clock_us: wall_us }, 100, 201);
        let mut agreement = heard(&[(0, 0, 0)]);
        agreement.read_peer(2, told);
        assert!(!agreement.agrees(1, &voters(&[1, 2])) && !agreement.agrees(2, &voters(&[1, 2])));
        assert!(agreement.off_us().is_some() && agreement.peer_off_us(2).is_some());
    }
}

#[test]
fn a_clock_is_off_by_what_it_is_from_the_middle_wall_clock() {
    for (rows, off) in [
        (&[(7, 9, 0)][..], (0, 2)),
        (&[(YEAR, YEAR + 2, 0), (10, 0, 0), (0, 0, 0)], (YEAR - 10, YEAR - 8)),
        (&[(40, 0, 0), (0, 0, 0)], (20, -20)),
    ] {
        assert_eq!(heard(rows).off_us(), Some(off), "{rows:?}");
    }
}

/// Node 1 of three, the others right: its wall clock is off by so many ms in each second, and its
/// clock at the end, which began right.
#[test]
fn time_3_a_clock_is_slewed_and_never_stepped_while_it_stamps() {
    let far = YEAR / MS;
    for (what, walls, clock_us) in [
        ("right", vec![0; 20], 0),
        ("100 ms ahead: 0.5 ms a second", vec![100; 20], 20 * 500),
        ("100 ms behind", vec![-100; 20], -20 * 500),
        ("0.2 ms ahead, and no further", vec![0, 0, 0], 0),
        ("a year ahead: nobody vouches for it", vec![far; 20], 0),
        ("jumping", [far, -far].repeat(10), 0),
        ("away and back", [vec![far; 9], vec![100; 2]].concat(), 2 * 500),
    ] {
        let (mut zero, group) = (0, [voters(&[1, 2, 3])]);
        let mut agreement = heard(&[(0, 0, 0), (0, 0, 0), (0, 0, 0)]);
        for (second, wall) in (1..).zip(walls) {
            agreement.read_own(reading(wall * MS, zero, 0));
            match agreement.correction(second * SECOND, &group) {
                Correction::None => (),
                Correction::Slew(by) => zero += by,
                Correction::Step(by) => panic!("{what}: a step by {by}"),
            }
        }
        assert_eq!(zero, clock_us, "{what}");
    }
}

/// A clock that was set wrong is set right as soon as its wall clock is, since nothing is stamped
/// with it; it is not set to a wall clock that jumps.
#[test]
fn a_clock_that_stamps_nothing_is_set_to_a_wall_clock_that_stands_still() {
    for (what, walls, set_after) in [
        ("wrong", vec![YEAR; 20], None),
        ("right", vec![0; 20], Some(4)),
        ("right after a while", [vec![YEAR; 5], vec![0; 9]].concat(), Some(9)),
        ("right every other second", [0, YEAR].repeat(10), None),
    ] {
        let (mut zero, mut set, group) = (YEAR, None, [voters(&[1, 2, 3])]);
        let mut agreement = heard(&[(0, 0, 0), (0, 0, 0), (0, 0, 0)]);
        for (second, wall) in (1..).zip(walls) {
            agreement.read_own(reading(wall, zero, 0));
            match agreement.correction(second * SECOND, &group) {
                Correction::None => (),
                Correction::Slew(by) => assert!(set.is_some(), "{what}: slewed by {by}"),
                Correction::Step(by) => {
                    zero += by;
                    set = Some(second);
                }
            }
            agreement.read_own(reading(wall, zero, 0));
            assert_eq!(agreement.agrees(1, &group[0]), set.is_some(), "{what} in second {second}");
        }
        assert_eq!(set, set_after, "{what}");
    }
}

/// All wall clocks are set together, as those of nodes that share a machine are: the majority is
/// believed, once it stands still.
#[test]
fn a_majority_of_wall_clocks_is_followed() {
    let mut agreement = heard(&[(YEAR, 0, 0), (YEAR, 0, 0), (YEAR, 0, 0)]);
    let group = [voters(&[1, 2, 3])];
    for second in 1..4 {
        assert_eq!(agreement.correction(second * SECOND, &group), Correction::None);
        assert!(!agreement.agrees(1, &group[0]) && !agreement.agrees(2, &group[0]));
    }
    assert_eq!(agreement.correction(4 * SECOND, &group), Correction::Step(YEAR));
}

/// One node of a cluster in which true time is known.
struct Node {
    started: i64,
    /// How fast its monotonic clock runs.
    ppm: i64,
    zero: i64,
    agreement: Agreement,
    stamps: bool,
}

/// One second of a cluster.
#[derive(Clone, Debug)]
struct SecondOfReadings {
    /// How far the wall clocks of the wrong are off.
    wrong: [i64; 2],
    /// On the way there and back, per pair of nodes; more than 0.9 s in all is no answer.
    delays: Vec<(i64, i64)>,
}

/// How far the wall clocks of the right may be off.
const RIGHT: i64 = 100 * MS;
/// What a clock is moved and drifts while a reading counts.
const DRIFT: i64 = 10 * MS;

impl Node {
    fn monotonic(&self, now: i64) -> i64 {
        let elapsed = now - self.started;
        elapsed + elapsed * self.ppm / 1_000_000
    }

    fn clock(&self, now: i64) -> i64 {
        self.zero + self.monotonic(now)
    }

    fn read(&self, now: i64, wall_off: i64) -> Shown {
        Shown { wall_us: now + wall_off, clock_us: self.clock(now) }
    }
}

fn play(right: Vec<(i64, i64)>, rounds: Vec<SecondOfReadings>, check: impl Fn(i64, &[Node])) {
    let count = right.len() + (right.len() - 1);
    let group: BTreeSet<u64> = (0..count as u64).collect();
    let off = |round: &SecondOfReadings, node: usize| match right.get(node) {
        Some((off, _)) => *off,
        None => round.wrong[node - right.len()],
    };
    let mut nodes: Vec<Node> = (0..count)
        .map(|node| {
            let (_, ppm) = right[node % right.len()];
            let started = -(node as i64) * SECOND;
            let (zero, agreement) =
                (started + off(&rounds[0], node), Agreement::new(node as u64, OFFSET_MAX as u64));
            Node { started, ppm, zero, agreement, stamps: false }
        })
        .collect();
    for (second, round) in (0..).zip(&rounds) {
        let now = second * SECOND;
        for pair in 0..count * count {
            let (asking, asked) = (pair / count, pair % count);
            let (there, back) = round.delays[pair];
            if asking == asked || there + back > 900 * MS {
                continue;
            }
            let shown = nodes[asked].read(now + there, off(round, asked));
            let node = &mut nodes[asking];
            let (from, to) = (node.monotonic(now), node.monotonic(now + there + back));
            node.agreement.read_peer(asked as u64, Reading::of(shown, from, to));
        }
        let now = now + 900 * MS;
        check(now, &nodes); // With the verdict of a second ago.
        for (at, node) in nodes.iter_mut().enumerate() {
            let monotonic = node.monotonic(now);
            let own =
                |node: &Node| Reading::of(node.read(now, off(round, at)), monotonic, monotonic);
            node.agreement.read_own(own(node));
            node.agreement.forget(monotonic);
            match node.agreement.correction(monotonic, std::slice::from_ref(&group)) {
                Correction::None => (),
                Correction::Slew(by) => node.zero += by,
                Correction::Step(by) => {
                    assert!(!node.stamps, "a step of a clock that stamps");
                    node.zero += by;
                }
            }
            node.agreement.read_own(own(node));
            node.stamps = node.agreement.agrees(at as u64, &group);
        }
        check(now, &nodes);
    }
}

fn wrong() -> impl Strategy<Value = i64> {
    prop_oneof![
        Just(YEAR),
        Just(-YEAR),
        Just(0),
        -2 * SECOND..2 * SECOND,
        350 * MS..700 * MS,
        -700 * MS..-350 * MS
    ]
}

fn rounds(delay_max: i64) -> impl Strategy<Value = Vec<SecondOfReadings>> {
    let delays = vec((0..delay_max, 0..delay_max), 25);
    // Some stay wrong by the same, some change every second.
    let steady = (wrong(), wrong()).prop_flat_map(move |(a, b)| {
        let round =
            delays.clone().prop_map(move |delays| SecondOfReadings { wrong: [a, b], delays });
        vec(round, 1..10)
    });
    vec(steady, 1..8).prop_map(|spans| spans.concat())
}

fn right() -> impl Strategy<Value = Vec<(i64, i64)>> {
    vec((-RIGHT..RIGHT, -100..100_i64), 2..=3)
}

proptest! {
    /// TIME-8: whatever the wall clocks of a minority show and whatever the network does, no stamp is
    /// further from true time than allowed: nothing is early by more, nor late.
    #[test]
    fn time_8_no_stamp_is_far_from_true_time(right in right(), rounds in rounds(600 * MS)) {
        let log = std::cell::Cell::new(0);
        play(right, rounds, |now, nodes| {
            for node in nodes.iter().filter(|node| node.stamps) {
                let off = node.clock(now) - now;
                assert!(off.abs() <= OFFSET_MAX + RIGHT + DRIFT, "off by {off} us");
                // TIME-3: the log takes the later one.
                log.set(log.get().max(node.clock(now)));
                let off = log.get() - now;
                assert!(off.abs() <= OFFSET_MAX + RIGHT + DRIFT, "the log is off by {off} us");
            }
        });
    }

    /// A right majority that answers is never stopped by the rest.
    #[test]
    fn the_right_go_on(right in right(), rounds in rounds(60 * MS)) {
        let count = right.len();
        play(right, rounds, |now, nodes| {
            let goes_on = nodes[..count].iter().all(|node| node.stamps);
            assert!(goes_on || now == 900 * MS, "stopped at {now}");
        });
    }
}
