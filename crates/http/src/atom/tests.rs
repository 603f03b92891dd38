//! What is read and written, without a broker.

use domain::{Counts, EntityInfo, EntityStatus, QueueProperties, SequenceNumber, Span, Timestamp};

use super::*;

fn info(properties: QueueProperties) -> EntityInfo {
    EntityInfo {
        name: "a/b & c".to_owned(),
        properties,
        created_at: Timestamp(1_767_225_600_000),
        updated_at: Timestamp(1_767_225_600_500),
        accessed_at: Timestamp(1_767_225_601_000),
        counts: Counts {
            active: 1,
            scheduled: 2,
            deferred: 3,
            dead_lettered: 4,
            ..Counts::default()
        },
        available: 1,
        available_dead_letter: 4,
        available_transfer_dead_letter: 0,
        size_bytes: 512,
        next_sequence: SequenceNumber(11),
        specifics: domain::Specifics::Queue,
        last_use: Timestamp(1_767_225_601_000),
        idleness: domain::Idleness::Never,
    }
}

fn unusual() -> QueueProperties {
    QueueProperties {
        lock_duration: Span(30_500),
        max_size_megabytes: 2048,
        max_message_size_kilobytes: 512,
        requires_duplicate_detection: true,
        duplicate_detection_window: Span(20_000),
        requires_session: true,
        default_ttl: Span(86_400_000),
        auto_delete_on_idle: Span(300_000),
        dead_letter_on_expiration: true,
        max_delivery_count: 3,
        status: EntityStatus::SendDisabled,
        user_metadata: "<&> \"ü\"".to_owned(),
        enable_batched_operations: false,
        forward_to: Some("a/b".to_owned()),
        forward_dead_letters_to: Some("c".to_owned()),
    }
}

fn written(info: &EntityInfo) -> String {
    let entry = Entry {
        id: "http://localhost:5300/a/b?x=1&y=2".to_owned(),
        title: &info.name,
        published: info.created_at,
        updated: info.updated_at,
    };
    let write =
        |xml: &mut Xml| document::entry(xml, &entry, queue::ELEMENT, |xml| queue::write(xml, info));
    String::from_utf8(document::alone(write).expect("memory takes everything")).expect("UTF-8")
}

fn read(body: &str) -> Result<QueueProperties, String> {
    let mut properties = QueueProperties::default();
    match read_queue(body, "q", &mut properties) {
        Ok(()) => Ok(properties),
        Err(failure) => Err(format!("{failure:?}")),
    }
}

/// ENT-3: all properties, as they were.
#[test]
fn ent_3_what_is_written_is_read_again() {
    for properties in [QueueProperties::default(), unusual()] {
        let text = written(&info(properties.clone()));
        assert_eq!(read(&text), Ok(properties), "{text}");
    }
}

/// What the SDKs look for: names, order, one `xmlns` on the counts, text that is escaped.
#[test]
fn an_entry_has_the_shape_the_clients_parse() {
    let text = written(&info(unusual()));
    for part in [
        r#"<entry xmlns="http://www.w3.org/2005/Atom"><id>http://localhost:5300/a/b?x=1&amp;y=2</id>"#,
        r#"<title type="text">a/b &amp; c</title>"#,
        "<published>2026-01-01T00:00:00Z</published><updated>2026-01-01T00:00:00.5Z</updated>",
        r#"<content type="application/xml"><QueueDescription xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect" xmlns:i="http://www.w3.org/2001/XMLSchema-instance"><LockDuration>PT30.5S</LockDuration>"#,
        "<SizeInBytes>512</SizeInBytes><MessageCount>10</MessageCount>",
        "<AuthorizationRules/><Status>SendDisabled</Status>",
        r#"<CountDetails xmlns:d2p1="http://schemas.microsoft.com/netservices/2011/06/servicebus"><d2p1:ActiveMessageCount>1</d2p1:ActiveMessageCount><d2p1:DeadLetterMessageCount>4</d2p1:DeadLetterMessageCount><d2p1:ScheduledMessageCount>2</d2p1:ScheduledMessageCount>"#,
        "<AutoDeleteOnIdle>PT5M</AutoDeleteOnIdle>",
        "<UserMetadata>&lt;&amp;&gt; ",
        "</QueueDescription></content></entry>",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

/// Prefixes and order are the client's; what is read-only or unknown is passed over.
#[test]
fn any_prefix_and_any_order_are_read() {
    let body = r#"<?xml version='1.0' encoding='utf-8'?>
        <ns0:entry xmlns:ns0="http://www.w3.org/2005/Atom"><ns0:content type="application/xml">
        <p4:QueueDescription xmlns:p4="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect">
          <p4:MaxDeliveryCount> 7 </p4:MaxDeliveryCount>
          <p4:SizeInBytes>99</p4:SizeInBytes>
          <Status xmlns="urn:other">Disabled</Status>
          <p4:Unheard>of</p4:Unheard>
          <p4:ForwardTo/>
          <p4:LockDuration>PT45S</p4:LockDuration>
        </p4:QueueDescription></ns0:content></ns0:entry>"#;
    let expected = QueueProperties {
        max_delivery_count: 7,
        lock_duration: Span(45_000),
        ..QueueProperties::default()
    };
    assert_eq!(read(body), Ok(expected));
    let bare = r#"<entry xmlns="http://www.w3.org/2005/Atom"><content><QueueDescription xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"/></content></entry>"#;
    assert_eq!(read(bare), Ok(QueueProperties::default()));
}

/// As the SDKs write them: cut to the path.
#[test]
fn fwd_1_a_destination_is_a_name_or_an_absolute_uri() {
    for (text, name) in [
        ("sb://host/a/b", Some("a/b")),
        ("http://localhost:5300/c/", Some("c")),
        ("c", Some("c")),
        ("sb://host", None),
        ("", None),
    ] {
        let body = format!(
            r#"<entry xmlns="http://www.w3.org/2005/Atom"><content><QueueDescription xmlns="{}"><ForwardTo>{text}</ForwardTo></QueueDescription></content></entry>"#,
            document::SERVICE_BUS
        );
        assert_eq!(read(&body).unwrap().forward_to.as_deref(), name, "{text}");
    }
}

#[test]
fn what_cannot_be_read_is_told_by_name() {
    let with = |inner: &str| {
        format!(
            r#"<entry xmlns="http://www.w3.org/2005/Atom"><content><QueueDescription xmlns="{}">{inner}</QueueDescription></content></entry>"#,
            document::SERVICE_BUS
        )
    };
    let deep = format!("{}{}", "<a>".repeat(20_000), "</a>".repeat(20_000));
    for (body, told) in [
        (with("<LockDuration>1 minute</LockDuration>"), "LockDuration: '1 minute' is not an ISO"),
        (with("<MaxDeliveryCount>-1</MaxDeliveryCount>"), "MaxDeliveryCount: '-1' is not a number"),
        (
            with("<RequiresSession>yes</RequiresSession>"),
            "RequiresSession: 'yes' is not true or false",
        ),
        (with("<Status>Deleting</Status>"), "Status: 'Deleting' is not Active, Disabled"),
        (
            with("<EnablePartitioning>true</EnablePartitioning>"),
            "EnablePartitioning is not supported",
        ),
        (String::new(), "the body is no XML"),
        ("<entry".to_owned(), "the body is no XML"),
        ("<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>".to_owned(), "the body is no XML"),
        (deep, "the body is no XML"),
        ("<entry/>".to_owned(), "the entry holds no description"),
        (with("").replace("Queue", "Topic"), "TopicDescription is not supported"),
    ] {
        let error = read(&body).expect_err(&body);
        assert!(error.contains(told), "{error}");
    }
}

#[test]
fn a_refusal_has_status_and_sub_code() {
    let refusals = [
        (domain::Refusal::EntityNotFound { name: "q".into() }, 404, "SubCode=40400. "),
        (domain::Refusal::EntityAlreadyExists { name: "q".into() }, 409, "SubCode=40900. "),
        (domain::Refusal::QuotaExceeded { what: "q", used: 2, max: 1 }, 403, ""),
        (domain::Refusal::InvalidOperation { why: "no" }, 400, "SubCode=40000. "),
        (domain::Refusal::PerhapsDone, 503, "SubCode=50004. "),
    ];
    for (refusal, status, sub_code) in refusals {
        let text = refusal.to_string();
        let response = Failure::from(service::Error::new(refusal, "q")).into_response();
        assert_eq!(response.status().as_u16(), status, "{text}");
        let detail = document::error(status, &format!("{sub_code}…")).expect("written");
        assert!(String::from_utf8_lossy(&detail).contains(&format!("<Code>{status}</Code>")));
    }
}
