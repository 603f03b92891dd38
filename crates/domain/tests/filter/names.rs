//! RULE-30, RULE-31, RULE-33, RULE-35: which property a name finds, and what is not there.

use domain::{SystemProperty, Value};

use crate::support::{check, message};

#[test]
fn rule_30_system_properties_are_read_under_current_and_legacy_names() {
    let mut message = message()
        .system(SystemProperty::MessageId, "id")
        .system(SystemProperty::SessionId, "session")
        .system(SystemProperty::ReplyToSessionId, "reply session")
        .system(SystemProperty::PartitionKey, "partition")
        .system(SystemProperty::TransactionPartitionKey, "via")
        .system(SystemProperty::CorrelationId, "correlation")
        .system(SystemProperty::Subject, "subject")
        .system(SystemProperty::To, "to")
        .system(SystemProperty::ReplyTo, "reply")
        .system(SystemProperty::ContentType, "text/plain")
        .system(SystemProperty::DeadLetterSource, "orders");
    message.ttl_ms = Some(5000);
    message.numbers = [
        (SystemProperty::SequenceNumber, 7),
        (SystemProperty::EnqueuedSequenceNumber, 8),
        (SystemProperty::DeliveryCount, 0),
        (SystemProperty::State, 0),
        (SystemProperty::Size, 100),
    ]
    .into();
    message.instants = [
        (SystemProperty::EnqueuedTimeUtc, 1000),
        (SystemProperty::ExpiresAtUtc, 6000),
        (SystemProperty::ScheduledEnqueueTimeUtc, 500),
    ]
    .into();
    check(
        &message,
        &[
            ("sys.MessageId = 'id'", "T"),
            ("sys.SessionId = 'session'", "T"),
            ("sys.ReplyToSessionId = 'reply session'", "T"),
            ("sys.PartitionKey = 'partition'", "T"),
            ("sys.TransactionPartitionKey = 'via' AND sys.ViaPartitionKey = 'via'", "T"),
            ("sys.CorrelationId = 'correlation'", "T"),
            ("sys.Subject = 'subject' AND sys.Label = 'subject'", "T"),
            ("sys.To = 'to'", "T"),
            ("sys.ReplyTo = 'reply'", "T"),
            ("sys.ContentType = 'text/plain'", "T"),
            ("sys.DeadLetterSource = 'orders'", "T"),
            ("sys.SequenceNumber = 7", "T"),
            ("sys.EnqueuedSequenceNumber = 8", "T"),
            ("sys.DeliveryCount = 0", "T"),
            ("sys.State = 0", "T"),
            ("sys.Size > 99", "T"),
            ("sys.ForcePersistence", "T"),
            ("sys.ExpiresAtUtc - sys.EnqueuedTimeUtc = sys.TimeToLive", "T"),
            ("sys.ScheduledEnqueueTimeUtc < sys.EnqueuedTimeUtc", "T"),
        ],
    );
}

#[test]
fn rule_31_names_are_found_in_any_case() {
    let message = message()
        .system(SystemProperty::Subject, "x")
        .set("Color", "red")
        .set("É", 1)
        .set("twin", 1)
        .set("Twin", 2);
    check(
        &message,
        &[
            ("sys.label = 'x' AND SYS.LABEL = 'x' AND Sys.sUBJECT = 'x'", "T"),
            ("color = 'red' AND USER.COLOR = 'red' AND [cOLOR] = 'red'", "T"),
            ("P('COLOR') = 'red' AND EXISTS(coLor)", "T"),
            // Case beyond ASCII counts: replicas must not depend on Unicode tables.
            ("É = 1", "T"),
            ("é = 1", "U"),
            // Of two that differ in case only, the one written alike; else the first in byte order.
            ("twin = 1", "T"),
            ("Twin = 2", "T"),
            ("TWIN = 2", "T"),
        ],
    );
}

#[test]
fn rule_33_a_missing_user_property_is_unknown_and_an_unset_system_property_null() {
    let message = message().set("none", Value::Null);
    check(
        &message,
        &[
            ("missing = 1", "U"),
            ("none = 1", "U"),
            ("none = NULL", "U"),
            ("none <> 1", "U"),
            ("sys.Subject = 'x'", "U"),
            ("sys.Subject IS NULL", "T"),
            ("EXISTS(sys.Subject)", "F"),
            ("property('sys.Subject') IS NULL", "T"),
            // The name itself is wrong: only property() can still say so at run time.
            ("property('sys.Colour') = 'x'", "'sys.Colour' (String) names no system property"),
            ("EXISTS(p('sys.Colour'))", "names no system property"),
        ],
    );
}

#[test]
fn rule_35_is_null_and_exists() {
    let message = message().set("none", Value::Null).set("n", 1).set("text", "");
    check(
        &message,
        &[
            ("missing IS NULL", "T"),
            ("missing IS NOT NULL", "F"),
            ("none IS NULL", "T"),
            ("none IS NOT NULL", "F"),
            ("n IS NULL", "F"),
            ("n IS NOT NULL", "T"),
            ("text IS NULL", "F"),
            ("n + missing IS NULL", "T"),
            ("NULL IS NULL", "T"),
            ("EXISTS(missing)", "F"),
            ("EXISTS(none)", "T"),
            ("EXISTS(n) AND NOT EXISTS (missing)", "T"),
            ("EXISTS(user.n)", "T"),
            ("EXISTS(p('n'))", "T"),
            ("EXISTS(p('missing'))", "F"),
            ("EXISTS(p(missing))", "F"),
            ("EXISTS(p(user.missing))", "U"),
        ],
    );
}
