//! TTL: what changes of the queue do to messages already stored.

use domain::{Lifetime, QueueProperties};

use crate::table::*;

fn seconds(count: u64) -> QueueProperties {
    QueueProperties { default_ttl: ms(count * SECOND), ..queue() }
}

#[test]
fn ttl_24_a_changed_default_retimes_derived_messages_and_no_fixed_ones() {
    let play = check(
        seconds(10),
        [
            (0, Send(vec![m(), m().ttl(4000), m().ttl(20_000)]), "sent 1 2 3", "1 2 3"),
            (1000, Update(|p| p.default_ttl = ms(3 * SECOND)), "done", "1 2 3"),
            (1000, send(m()), "sent 4", "1 2 3 4"),
            (2999, FireAll, "fired", "1 2 3 4"),
            (3000, FireAll, "fired dropped 1", "2 3 4 || expired 1"),
            // The second has its own 4 s; the third was lowered to the 10 s of its time.
            (3999, FireAll, "fired", "2 3 4 || expired 1"),
            (4000, FireAll, "fired dropped 2", "3 || expired 3"),
            (9999, FireAll, "fired", "3 || expired 3"),
            (10_000, FireAll, "fired dropped 1", "|| expired 4"),
        ],
    );
    assert_eq!(play.counts().accepted, 4);
}

#[test]
fn ttl_24_a_raised_default_finds_again_what_the_search_had_passed() {
    check(
        seconds(1),
        [
            (0, Send(vec![m(), m()]), "sent 1 2", "1 2"),
            (0, Take(1), "got 1", "1L 2"),
            // Due, locked: passed.
            (1000, FireAll, "fired dropped 1", "1L || expired 1"),
            (1000, send(m()), "sent 3", "1L 3 || expired 1"),
            (1500, Update(|p| p.default_ttl = ms(10 * SECOND)), "done", "1L 3 || expired 1"),
            (1500, Abandon(&[1]), "settled", "1+1 3 || expired 1"),
            (9999, FireAll, "fired", "1+1 3 || expired 1"),
            (10_000, FireAll, "fired dropped 1", "3 || expired 2"),
            (10_999, FireAll, "fired", "3 || expired 2"),
            (11_000, FireAll, "fired dropped 1", "|| expired 3"),
        ],
    );
}

#[test]
fn ttl_24_a_default_given_later_reaches_what_had_none_before() {
    check(
        queue(),
        [
            (0, Send(vec![m(), m()]), "sent 1 2", "1 2"),
            (0, Take(1), "got 1", "1L 2"),
            (0, Abandon(&[1]), "settled", "1+1 2"),
            (50, Update(|p| p.default_ttl = ms(SECOND)), "done", "1+1 2"),
            (50, Restart, "", "1+1 2"),
            (999, FireAll, "fired", "1+1 2"),
            (1000, FireAll, "fired dropped 2", "|| expired 2"),
        ],
    );
}

#[test]
fn ttl_24_a_message_without_limit_of_its_own_stays_fixed_at_never() {
    let play = check(
        queue(),
        [
            (0, send(m().ttl(u64::MAX)), "sent 1", "1"),
            (0, Update(|p| p.default_ttl = ms(SECOND)), "done", "1"),
            (DAY, FireAll, "fired", "1"),
        ],
    );
    assert!(matches!(play.message(MAIN, 1).lifetime, Lifetime::Fixed { expires_at, .. }
        if expires_at.is_never()));
}

#[test]
fn ttl_26_a_raised_default_revives_nothing_and_a_lowered_one_uses_the_flag_of_the_moment() {
    check(
        seconds(10),
        [
            (0, Send(vec![m(), m()]), "sent 1 2", "1 2"),
            (500, send(m()), "sent 3", "1 2 3"),
            (10_000, FireAll, "fired dropped 2", "3 || expired 2"),
            (10_000, Update(|p| p.default_ttl = ms(20 * SECOND)), "done", "3 || expired 2"),
            (10_500, FireAll, "fired", "3 || expired 2"),
            (11_000, Update(|p| p.dead_letter_on_expiration = true), "done", "3 || expired 2"),
            (11_000, Update(|p| p.default_ttl = ms(SECOND)), "done", "3 || expired 2"),
            (11_000, FireAll, "fired dead-lettered 1", "| 3 | expired 2"),
        ],
    );
    // A message already due that was not swept when the default rose: it is not expired any more.
    check(
        seconds(1),
        [
            (0, send(m()), "sent 1", "1"),
            (2000, Update(|p| p.default_ttl = ms(10 * SECOND)), "done", "1"),
            (2000, FireAll, "fired", "1"),
            (2000, Take(1), "got 1", "1L"),
        ],
    );
}

#[test]
fn ttl_30_the_flag_is_read_when_expiry_is_processed() {
    check(
        queue(),
        [
            (0, Send(vec![m().ttl(10), m().ttl(20), m().ttl(30)]), "sent 1 2 3", "1 2 3"),
            (10, FireAll, "fired dropped 1", "2 3 || expired 1"),
            (15, Update(|p| p.dead_letter_on_expiration = true), "done", "2 3 || expired 1"),
            (20, FireAll, "fired dead-lettered 1", "3 | 2 | expired 1"),
            // Due at 30, processed at 40 by a receive.
            (35, Update(|p| p.dead_letter_on_expiration = false), "done", "3 | 2 | expired 1"),
            (40, Take(1), "got", "| 2 | expired 2"),
        ],
    );
}

#[test]
fn ttl_36_expiry_into_the_dead_letter_queue_of_a_full_queue_works() {
    let mut play =
        Table::new(QueueProperties { max_message_size_kilobytes: 1024, ..dead_lettering() });
    let megabytes = |_| {
        domain::Command::Send(domain::Send {
            origin: None,
            entity: crate::support::QUEUE,
            messages: vec![m().size(1024 * 1024).ttl(10)],
        })
    };
    let entry = play.group.entry((0..1024).map(megabytes).collect());
    play.group.step(vec![entry]);
    assert_eq!(play.play(1, send(m())), "QuotaExceeded");
    assert_eq!(play.play(10, FireAll), "fired dead-lettered 1024");
    assert_eq!(play.counts().dead_lettered, 1024);
    // What it says about why counts as well.
    assert!(play.info().size_bytes > 1 << 30);
    assert_eq!(play.play(11, send(m())), "QuotaExceeded");
}
