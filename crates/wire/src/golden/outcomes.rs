//! Outcomes.

use super::*;

#[test]
fn outcomes() {
    let delivery = Delivery {
        sequence: NUMBER,
        body: NUMBER,
        topic: None,
        size_bytes: 9,
        state: MessageState::Deferred,
        delivery_count: 1,
        enqueued_at: AT,
        enqueued_sequence: NUMBER,
        dead_letter_source: None,
        scheduled_at: None,
        ttl: Some(Span(7)),
        expires_at: None,
        lock: Some(HeldLock { token: TOKEN, until: AT }),
        overlay: None,
    };
    let fired =
        Fired { activated: 1, dropped: 2, late_ms_max: 300, more: true, ..Fired::default() };
    for (outcome, expected) in [
        (Outcome::Refused(Refusal::EntityNotFound { name: "q".into() }), "01010171"),
        (Outcome::Refused(Refusal::StaleRoute { entity: ENTITY }), "0102ac02"),
        (Outcome::Refused(Refusal::EntityAlreadyExists { name: "q".into() }), "01030171"),
        (
            Outcome::Refused(Refusal::EntityDisabled { status: "Disabled" }),
            "01040844697361626c6564",
        ),
        (
            Outcome::Refused(Refusal::MessageLockLost { token: TOKEN }),
            "0105000000000000004d0102030405060708",
        ),
        (
            Outcome::Refused(Refusal::MessageNotFound { sequence: NUMBER, needs: "deferred" }),
            "01064d086465666572726564",
        ),
        (
            Outcome::Refused(Refusal::MessageSizeExceeded { what: "body", bytes: 300, max: 256 }),
            "010704626f6479ac028002",
        ),
        (Outcome::Refused(Refusal::QuotaExceeded { what: "q", used: 2, max: 1 }), "010801710201"),
        (Outcome::Refused(Refusal::Argument { what: "w", why: "y".into() }), "010901770179"),
        (Outcome::Refused(Refusal::Undecodable { what: "w", why: "y".into() }), "013201770179"),
        (
            Outcome::Refused(Refusal::ArgumentOutOfRange {
                what: "w",
                value: "0".into(),
                allowed: "1",
            }),
            "010a017701300131",
        ),
        (
            Outcome::Refused(Refusal::Serialization { what: "w".into(), bytes: 2, max: 1 }),
            "010b01770201",
        ),
        (Outcome::Refused(Refusal::InvalidOperation { why: "y" }), "010c0179"),
        (Outcome::Refused(Refusal::NotSupported { what: "w" }), "010d0177"),
        (Outcome::Refused(Refusal::SerialGap { expected: 5 }), "010e05"),
        (Outcome::Refused(Refusal::OtherCut { cut: 300 }), "0134ac02"),
        (Outcome::Refused(Refusal::Relocated { entity: EntityId(300), to: None }), "0135ac0200"),
        (
            Outcome::Refused(Refusal::Relocated { entity: EntityId(300), to: Some(GroupId(3)) }),
            "0135ac020103",
        ),
        (Outcome::Refused(Refusal::PerhapsDone), "010f"),
        (Outcome::Refused(Refusal::StorageFull { on: vec![1, 3] }), "0110020103"),
        (Outcome::Refused(Refusal::TopicBusy { topic: "q".into(), waiting: 7 }), "0133017107"),
        (Outcome::Refused(Refusal::NoMatchingSubscription { topic: "q".into() }), "01180171"),
        (
            Outcome::Refused(Refusal::InvalidRule {
                exception: "FilterException",
                why: "y".into(),
            }),
            "01190f46696c746572457863657074696f6e0179",
        ),
        (Outcome::Sent { sequences: vec![NUMBER, NUMBER.next()] }, "02024d4e"),
        (
            Outcome::Acquired { deliveries: vec![delivery], more: true },
            "03014d4d0009010180d095ffbc314d000001070001000000000000004d010203040506070880d095ffbc310001",
        ),
        (Outcome::Settled { refused: vec![(1, Refusal::PerhapsDone)] }, "0401010f"),
        (Outcome::Renewed { until: vec![AT] }, "050180d095ffbc31"),
        (Outcome::Deleted { count: 3, more: false }, "060300"),
        (Outcome::Fired(fired), "0701020000ac020001"),
        (Outcome::Spared, "0c"),
        (Outcome::Catalog(CatalogOutcome::JoinTokenCreated { expires_at: AT }), "080280d095ffbc31"),
        (Outcome::Catalog(CatalogOutcome::Joined { node: 4 }), "080304"),
        (Outcome::Catalog(CatalogOutcome::FaultRulesChanged { at: AT }), "080580d095ffbc31"),
        (
            Outcome::Catalog(CatalogOutcome::Namespace(namespace())),
            "0806066f7264657273ac0280d095ffbc310701016b050170017380d095ffbc310700",
        ),
        (
            Outcome::Catalog(CatalogOutcome::Document(document())),
            "080a0474616773027b7d80d095ffbc3107",
        ),
        (Outcome::Catalog(CatalogOutcome::NotJoined(JoinFault::Unknown)), "080401"),
        (Outcome::Catalog(CatalogOutcome::NotJoined(JoinFault::Used { node: 4 })), "08040204"),
        (
            Outcome::Catalog(CatalogOutcome::NotJoined(JoinFault::Expired { ago: Span(300) })),
            "080403ac02",
        ),
        (
            Outcome::Catalog(CatalogOutcome::NotJoined(JoinFault::OtherNode { of: 4, asked: 0 })),
            "0804040400",
        ),
    ] {
        assert_eq!(hex(&outcome.encode()), expected, "{outcome:?}");
    }
}
