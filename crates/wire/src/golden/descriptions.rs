//! Descriptions of entities.

use super::*;

#[test]
fn descriptions() {
    let info = |idleness| EntityInfo {
        name: "Orders".into(),
        properties: QueueProperties::default(),
        specifics: Specifics::Queue,
        created_at: AT,
        updated_at: Timestamp(5),
        accessed_at: Timestamp(6),
        counts: Counts {
            accepted: 1,
            active: 2,
            scheduled: 3,
            deferred: 4,
            dead_lettered: 5,
            completed: 6,
            cancelled: 7,
            expired: 8,
            deleted: 9,
            published: 10,
            transfer: 11,
            transfer_dead_lettered: 12,
            moved: 13,
        },
        available: 300,
        available_dead_letter: 14,
        available_transfer_dead_letter: 15,
        size_bytes: 16,
        next_sequence: NUMBER,
        last_use: Timestamp(17),
        idleness,
    };
    let head = "064f7264657273e0d4038008800200c0cf2400ffffffffffffffffff01ffffffffffffffffff01\
                000a00000100000080d095ffbc3105060102030405060708090a0b0c0dac020e0f104d11";
    for (idleness, tail) in [
        (Idleness::Never, "00"),
        (Idleness::Scheduled, "01"),
        (Idleness::Since { since: AT, due: Timestamp(7) }, "0280d095ffbc3107"),
    ] {
        let info = info(idleness);
        let bytes = info.encode();
        assert_eq!(hex(&bytes), format!("{head}{tail}"), "{idleness:?}");
        assert_eq!(EntityInfo::decode(&bytes).unwrap(), info);
    }
}
