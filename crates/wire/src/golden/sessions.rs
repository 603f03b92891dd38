//! Sessions and transactions: commands, outcomes and rows.

use super::*;

#[test]
fn sessions() {
    let token = || SessionToken { session: "s".into(), nonce: TOKEN.nonce };
    let (origin, entity) = (None, ENTITY);
    let commands = [
        (
            SessionCommand::Accept(AcceptSession {
                origin: ORIGIN,
                queue: QUEUE,
                receiver: RECEIVER,
                session: Some("s".into()),
            }),
            "120101000000000000feed090100ac020102f40303010173",
        ),
        (
            SessionCommand::Receive(ReceiveSession {
                entity,
                token: token(),
                receiver: RECEIVER,
                count_max: 10,
                bytes_max: 1000,
            }),
            "1202ac020173010203040506070802f403030ae807",
        ),
        (
            SessionCommand::Renew(RenewSession { origin, entity, token: token() }),
            "120300ac0201730102030405060708",
        ),
        (
            SessionCommand::Release(ReleaseSession { origin, entity, token: token() }),
            "120400ac0201730102030405060708",
        ),
        (
            SessionCommand::SetState(SetSessionState {
                origin,
                entity,
                token: token(),
                state: Some(Bytes::from_static(b"x")),
            }),
            "120500ac0201730102030405060708010178",
        ),
        (
            SessionCommand::ReceiveDeferred(ReceiveSessionDeferred {
                origin,
                entity,
                token: token(),
                receiver: RECEIVER,
                numbers: vec![NUMBER],
            }),
            "120600ac020173010203040506070802f40303014d",
        ),
        (
            SessionCommand::DeleteBatch(DeleteSessionBatch {
                origin,
                entity,
                token: token(),
                count_max: 4,
                before: Some(AT),
            }),
            "120700ac0201730102030405060708040180d095ffbc31",
        ),
        (
            SessionCommand::Fire(FireSessions { locks: vec![(ENTITY, token())] }),
            "120801ac0201730102030405060708",
        ),
        (
            SessionCommand::Resume(ResumeSession {
                entity,
                token: token(),
                receiver: RECEIVER,
                arrived: vec![TOKEN],
            }),
            "1209ac020173010203040506070802f4030301000000000000004d0102030405060708",
        ),
    ];
    for (given, expected) in commands {
        assert_eq!(command(Command::Session(given.clone())), expected, "{given:?}");
    }
    let lock = SessionLock { nonce: TOKEN.nonce, until: AT, receiver: RECEIVER, closed: false };
    let row = SessionRow {
        active: 3,
        deferred: 1,
        ready: Numbers { count: 2, low: NUMBER },
        held: Numbers { count: 1, low: SequenceNumber(70) },
        lock: Some(lock),
        released_at: AT,
        claim: Some(Claim { at: AT, turn: 5 }),
        state: Some(StateMark { size_bytes: 1, changed_at: AT }),
    };
    for (row, expected) in [
        (
            Row::Session(Box::new(row)),
            "010301024d014601010203040506070880d095ffbc3102f403030080d095ffbc310180d095ffbc3105010180d095ffbc31",
        ),
        (Row::SessionMessage, ""),
        (
            Row::SessionHeld(HeldRow { nonce: TOKEN.nonce, receiver: RECEIVER }),
            "01010203040506070802f40303",
        ),
        (Row::SessionFree("s".into()), "010173"),
        (Row::SessionLocked, ""),
        (Row::SessionState(Bytes::from_static(b"x")), "78"),
    ] {
        assert_eq!(hex(&encode_row(&row)), expected, "{row:?}");
    }
    for (outcome, expected) in [
        (Outcome::Accepted { token: token(), until: AT }, "090173010203040506070880d095ffbc31"),
        (Outcome::Refused(Refusal::SessionLockLost { session: Some("s".into()) }), "0111010173"),
        (Outcome::Refused(Refusal::SessionCannotBeLocked { session: "s".into() }), "01120173"),
        (Outcome::Refused(Refusal::NoSession), "0113"),
    ] {
        assert_eq!(hex(&outcome.encode()), expected, "{outcome:?}");
    }
}

#[test]
fn transactions() {
    let message = NewMessage {
        content: Bytes::from_static(b"body"),
        size_bytes: 5,
        header_bytes: 1,
        message_id: None,
        session_id: None,
        partition_key: None,
        ttl: None,
        scheduled_at: None,
    };
    let settlement = |disposition| Settlement { token: TOKEN, disposition };
    let settlements = vec![settlement(Disposition::Complete), settlement(Disposition::Withheld)];
    let token = SessionToken { session: "s".into(), nonce: TOKEN.nonce };
    let (origin, entity, queue) = (None, ENTITY, QUEUE);
    let destination = Destination { entity: EntityId(301), group: GroupId(3) };
    let messages = vec![message];
    let operations = vec![
        Operation::Send(Send { origin, entity, messages: messages.clone() }),
        Operation::CancelScheduled(CancelScheduled { origin, entity, numbers: vec![NUMBER] }),
        Operation::Settle(Settle { origin, queue, settlements, atomic: true }),
        Operation::Renew(Renew { origin, queue, tokens: vec![TOKEN] }),
        Operation::SetState(SetSessionState { origin, entity, token, state: None }),
        Operation::SendVia(SendVia { via: entity, destination, messages }),
    ];
    let commit = Commit { origin: ORIGIN, entity, operations };
    assert_eq!(
        command(Command::Commit(commit)),
        "3201000000000000feed090100ac02060100ac020104626f6479050100000000000200ac02014d0300ac020102000000000000004d010203040506070801000000000000004d010203040506070828010400ac020101000000000000004d01020304050607080500ac02017301020304050607080006ac02ad02030104626f647905010000000000"
    );
    let performed = vec![
        Performed::Done,
        Performed::Sent { sequences: vec![NUMBER] },
        Performed::Renewed { until: vec![AT] },
    ];
    let (what, held, max) = ("w", 101, 100);
    let (operation, cause) = (3, Refusal::MessageLockLost { token: TOKEN }.into());
    for (outcome, expected) in [
        (Outcome::Committed { performed }, "28030001014d020180d095ffbc31"),
        (Outcome::Refused(Refusal::TransactionSizeExceeded { what, held, max }), "012801776564"),
        (Outcome::Refused(Refusal::TransactionUnknown), "0129"),
        (Outcome::Refused(Refusal::TransactionTimedOut), "012a"),
        (
            Outcome::Refused(Refusal::TransactionRolledBack { operation, cause }),
            "012b0305000000000000004d0102030405060708",
        ),
    ] {
        assert_eq!(hex(&outcome.encode()), expected, "{outcome:?}");
    }
}

/// However deep bytes claim to nest.
#[test]
fn a_transaction_rolled_back_for_another_is_no_value() {
    let nested = [&[1u8][..], &[43, 0].repeat(100_000), &[41]].concat();
    assert!(Outcome::decode(&nested.into()).is_err());
}
