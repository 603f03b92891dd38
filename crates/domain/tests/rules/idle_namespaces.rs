//! NS-9, NS-10: namespaces that go once they are idle, as the catalog decides it.

use domain::{
    CatalogCommand, CatalogOutcome, Command, Key, NamespaceState, Outcome, Refusal, Span,
    TOUCH_LASTS, Timestamp,
};

use crate::catalog::{ask, created};
use crate::namespaces::{REQUEST, create_queue, with_orders};
use crate::support::{EPOCH, Group};
use crate::table::queue;

const MINUTE: u64 = 60_000;
const WINDOW: Span = Span(10 * MINUTE);

/// What is asked of the catalog about the namespace.
#[derive(Clone, Copy, Debug)]
enum Asked {
    SetIdle(Span),
    /// Until so many ms from the beginning.
    Use(u64),
    Seal,
    DeleteIdle,
    /// Nothing is, and the catalog has no leader meanwhile.
    Silence,
}
use Asked::*;

const NEVER: Span = Span::MAX;

fn said(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Done => "done",
        Outcome::Spared => "spared",
        Outcome::Catalog(CatalogOutcome::Namespace(row)) => match row.state {
            NamespaceState::Ready => "stays",
            NamespaceState::Deleting => "goes",
        },
        Outcome::Refused(Refusal::ArgumentOutOfRange { .. }) => "out of range",
        Outcome::Refused(Refusal::EntityNotFound { .. }) => "gone",
        other => panic!("unexpected: {other:?}"),
    }
}

struct Play(Group);

impl Play {
    /// With beats, unless nobody leads.
    fn until(&mut self, at: Timestamp, is_led: bool) {
        let group = &mut self.0;
        while is_led && at.since(group.now) > Span(MINUTE) {
            group.now = group.now.plus(Span(MINUTE));
            group.apply(Command::Beat);
        }
        group.now = at;
    }

    fn ask(&mut self, asked: Asked, request: u64) -> &'static str {
        let name = "orders".to_owned();
        let command = match asked {
            SetIdle(window) => CatalogCommand::SetNamespaceIdle { request, name, window },
            Use(until) => {
                let until = EPOCH.plus(Span(until));
                CatalogCommand::UseNamespace { request, name, until }
            }
            Seal => CatalogCommand::SealNamespace { request, name },
            DeleteIdle => CatalogCommand::DeleteIdleNamespace { request, name },
            Silence => return "",
        };
        said(&ask(&mut self.0, command))
    }

    fn check(lines: &[(u64, Asked, &str)]) -> Play {
        let mut play = Play(with_orders());
        for (index, (at, asked, expected)) in lines.iter().enumerate() {
            play.until(EPOCH.plus(Span(*at)), !matches!(asked, Silence));
            assert_eq!(play.ask(*asked, REQUEST), *expected, "line {index} at {at}: {asked:?}");
        }
        play
    }
}

#[test]
fn ns_9_a_namespace_goes_once_nobody_used_it_for_its_window() {
    let mut play = Play::check(&[
        (0, SetIdle(Span(5 * MINUTE - 1)), "out of range"),
        (0, Seal, "spared"), // It is not temporary.
        (0, DeleteIdle, "spared"),
        (0, SetIdle(WINDOW), "stays"),
        (10 * MINUTE - 1, Seal, "spared"),
        (10 * MINUTE, DeleteIdle, "spared"), // Nobody was asked.
        (10 * MINUTE, Seal, "done"),
        (10 * MINUTE, Seal, "done"),
        (10 * MINUTE, DeleteIdle, "goes"),
        (10 * MINUTE, DeleteIdle, "goes"),
        (10 * MINUTE, Use(10 * MINUTE), "gone"),
        (10 * MINUTE, Seal, "gone"),
    ]);
    let group = &mut play.0;
    let refused = create_queue(group, "+orders:q", queue());
    assert!(matches!(refused, Outcome::Refused(_)), "nothing is created there: {refused:?}");
    let name = || "orders".to_owned();
    let gone = CatalogCommand::NamespaceDeleted { request: REQUEST, name: name() };
    assert_eq!(ask(group, gone), Outcome::Done);
    assert!(!group.rows.0.contains_key(&Key::NamespaceIdle(name())), "nothing is kept");
}

#[test]
fn ns_9_each_use_and_each_setting_gives_it_a_whole_window() {
    let ahead = TOUCH_LASTS.0;
    Play::check(&[
        (0, SetIdle(WINDOW), "stays"),
        (9 * MINUTE, Use(9 * MINUTE), "done"),
        (19 * MINUTE - 1, Seal, "spared"),
        (19 * MINUTE - 1, SetIdle(WINDOW), "stays"), // As IDLE-13.
        (29 * MINUTE - 2, Seal, "spared"),
        // Longer ahead than a use is written down for it does not last, nor is an earlier one taken for a later one.
        (29 * MINUTE - 2, Use(90 * MINUTE), "done"),
        (29 * MINUTE - 2, Use(28 * MINUTE), "done"),
        (39 * MINUTE - 3 + ahead, Seal, "spared"),
        (39 * MINUTE - 2 + ahead, Seal, "done"),
        (41 * MINUTE, SetIdle(NEVER), "stays"),
        (41 * MINUTE, DeleteIdle, "spared"),
        (900 * MINUTE, Seal, "spared"),
    ]);
}

#[test]
fn ns_10_a_use_after_the_question_keeps_it_and_one_after_the_answer_finds_nothing() {
    Play::check(&[
        (0, SetIdle(WINDOW), "stays"),
        (10 * MINUTE, Seal, "done"),
        (11 * MINUTE, Use(11 * MINUTE), "done"),
        (11 * MINUTE, DeleteIdle, "spared"),
        (21 * MINUTE, DeleteIdle, "spared"), // Who uses it is to be asked again.
        (21 * MINUTE, Seal, "done"),
        (21 * MINUTE, DeleteIdle, "goes"),
        (21 * MINUTE, Use(21 * MINUTE), "gone"),
    ]);
}

#[test]
fn ns_10_time_without_a_leader_of_the_catalog_does_not_count() {
    Play::check(&[
        (0, SetIdle(WINDOW), "stays"),
        (5 * MINUTE, Use(5 * MINUTE), "done"),
        (100 * MINUTE, Silence, ""),
        (100 * MINUTE, Seal, "spared"),
        (110 * MINUTE - 1, Seal, "spared"),
        (110 * MINUTE, Seal, "done"),
    ]);
}

#[test]
fn ns_10_what_is_asked_of_a_namespace_of_before_does_nothing_to_one_of_its_name() {
    let mut play = Play::check(&[(0, SetIdle(WINDOW), "stays"), (10 * MINUTE, Seal, "done")]);
    created(&mut play.0, "+orders:q");
    let other = |asked| -> CatalogCommand {
        let (request, name) = (REQUEST + 1, "orders".to_owned());
        match asked {
            DeleteIdle => CatalogCommand::DeleteIdleNamespace { request, name },
            _ => CatalogCommand::SetNamespaceIdle { request, name, window: NEVER },
        }
    };
    for asked in [DeleteIdle, SetIdle(NEVER)] {
        let refused = ask(&mut play.0, other(asked));
        assert!(matches!(refused, Outcome::Refused(Refusal::Argument { .. })), "{refused:?}");
    }
    assert_eq!(play.ask(DeleteIdle, REQUEST), "goes");
}
