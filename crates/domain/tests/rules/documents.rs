//! Documents of management interfaces, as the catalog keeps them.

use domain::{
    CatalogCommand, CatalogOutcome, DOCUMENT_BYTES_MAX, DOCUMENT_NAME_BYTES_MAX, DOCUMENTS_MAX,
    DocumentRow, DocumentText, Key, Outcome, Refusal,
};

use crate::catalog::{ask, catalog};
use crate::support::Group;

fn put(group: &mut Group, name: &str, text: &str, is_new: bool) -> Outcome {
    let (name, text) = (name.to_owned(), DocumentText(text.to_owned()));
    ask(group, CatalogCommand::PutDocument { name, text, is_new })
}

fn document(outcome: Outcome) -> DocumentRow {
    match outcome {
        Outcome::Catalog(CatalogOutcome::Document(row)) => row,
        other => panic!("no document: {other:?}"),
    }
}

#[test]
fn a_document_says_what_was_put_last_and_the_first_is_there_to_stay_where_a_new_one_is_wanted() {
    let mut group = catalog(1);
    let first = document(put(&mut group, "a", "1", true));
    assert_eq!(document(put(&mut group, "a", "2", true)), first, "there is one");
    let second = document(put(&mut group, "a", "2", false));
    assert_eq!((&*second.text.0, second.created_at), ("2", first.created_at));
    assert_eq!(document(put(&mut group, "a", "2", false)), second, "a repeat");
    for _ in 0..2 {
        let remove = CatalogCommand::RemoveDocument { name: "a".to_owned() };
        assert_eq!(ask(&mut group, remove), Outcome::Done);
        assert!(!group.rows.0.contains_key(&Key::Document("a".to_owned())));
    }
}

#[test]
fn documents_are_bounded_in_number_and_size() {
    let mut group = catalog(1);
    for (name, text, is_kept) in [
        ("x".repeat(DOCUMENT_NAME_BYTES_MAX), String::new(), true),
        ("x".repeat(DOCUMENT_NAME_BYTES_MAX + 1), String::new(), false),
        (String::new(), String::new(), false),
        ("y".to_owned(), "x".repeat(DOCUMENT_BYTES_MAX), true),
        ("z".to_owned(), "x".repeat(DOCUMENT_BYTES_MAX + 1), false),
    ] {
        let outcome = put(&mut group, &name, &text, false);
        let is_refused = matches!(outcome, Outcome::Refused(Refusal::Argument { .. }));
        assert_eq!(is_refused, !is_kept, "{} {}", name.len(), text.len());
    }
    for number in 2..DOCUMENTS_MAX {
        document(put(&mut group, &format!("n{number}"), "", false));
    }
    let outcome = put(&mut group, "more", "", false);
    assert!(matches!(outcome, Outcome::Refused(Refusal::QuotaExceeded { .. })), "{outcome:?}");
    document(put(&mut group, "y", "other", false));
}
