//! SEL-6: messages taken by number from the midst of a queue.

use domain::{APPLY_ROWS_MAX, Delivery, Outcome, QueueProperties, SubQueue};

use crate::table::*;

fn numbers(deliveries: &[Delivery]) -> Vec<u64> {
    deliveries.iter().map(|delivery| delivery.sequence.0).collect()
}

fn selected(play: &mut Table, wanted: &[u64]) -> Vec<u64> {
    match play.select(MAIN, wanted) {
        Outcome::Acquired { deliveries, more: false } => numbers(&deliveries),
        other => panic!("not selected: {other:?}"),
    }
}

/// What lies around a message that is taken stays to be had, in its order, and counts no delivery.
#[test]
fn sel_6_what_is_not_selected_stays_for_others_untouched() {
    let mut play = Table::new(QueueProperties::default());
    play.send((1..=9).map(|_| m()).collect());
    // In whatever order they are named, and however often.
    assert_eq!(selected(&mut play, &[7, 3, 7]), [3, 7]);
    // Nor is one given twice, or one that is not there.
    assert_eq!(selected(&mut play, &[3, 4, 99]), [4]);
    assert_eq!(play.state().counts.active, 9);
    // One that comes back is first, as any other is.
    assert!(play.play(0, Abandon(&[3])).starts_with("settled"));
    let taken = play.taken(MAIN, 9);
    assert_eq!(numbers(&taken), [1, 2, 3, 5, 6, 8, 9]);
    let counts: Vec<u32> = taken.iter().map(|delivery| delivery.delivery_count).collect();
    assert_eq!(counts, [0, 0, 1, 0, 0, 0, 0]);
}

/// However many lie before it, each entry's work is bounded, and asking again gets there.
#[test]
fn sel_6_a_message_behind_many_is_reached_step_by_step() {
    const COUNT: u64 = 5 * APPLY_ROWS_MAX as u64 / 2;
    let mut play = Table::new(QueueProperties::default());
    for _ in 0..COUNT / 100 {
        play.send((0..100).map(|_| m()).collect());
    }
    let last = COUNT / 100 * 100;
    let (mut steps, mut found) = (0, Vec::new());
    while found.is_empty() {
        match play.select(MAIN, &[last]) {
            Outcome::Acquired { deliveries, more } => {
                assert_eq!(more, deliveries.is_empty());
                found = numbers(&deliveries);
            }
            other => panic!("not selected: {other:?}"),
        }
        assert!(play.group.written <= APPLY_ROWS_MAX as usize, "{} rows", play.group.written);
        steps += 1;
    }
    assert_eq!(found, [last]);
    assert!((4..=8).contains(&steps), "{steps}");
    assert_eq!(play.state().available[SubQueue::Main as usize], last - 1);
    assert_eq!(numbers(&play.taken(MAIN, 3)), [1, 2, 3]);
}
