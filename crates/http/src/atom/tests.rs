//! What is read and written, without a broker.

use domain::{
    AccessRights, AuthorizationRule, Conditions, Counts, EntityId, EntityStatus, QueueProperties,
    RuleCounts, RuleFilter, SequenceNumber, Span, SqlText, SubscriptionSpecifics, SystemProperty,
    Timestamp, TopicSpecifics, Value,
};

use super::*;

const ASKED: Asked<'static> = Asked {
    scheme: "http",
    authority: "localhost:5300",
    path: "/a%2Ft/Subscriptions/s",
    query: Some("api-version=2024-05&enrich=False"),
};

fn info(name: &str, properties: QueueProperties, specifics: Specifics) -> EntityInfo {
    EntityInfo {
        name: name.to_owned(),
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
        specifics,
        last_use: Timestamp(1_767_225_601_000),
        idleness: domain::Idleness::Never,
    }
}

/// When it came is told, and not taken from clients.
fn authorization_rule(name: &str, rights: AccessRights) -> AuthorizationRule {
    AuthorizationRule {
        name: name.to_owned(),
        rights,
        primary_key: "<p>".to_owned(),
        secondary_key: "s+/=".to_owned(),
        created_at: Timestamp(0),
        modified_at: Timestamp(0),
    }
}

fn unusual_queue() -> QueueProperties {
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
        user_metadata: " <&> \"ü\"\r\n]]> ".to_owned(),
        enable_batched_operations: false,
        authorization_rules: vec![authorization_rule("boss", AccessRights::ALL)],
        forward_to: Some("a/b".to_owned()),
        forward_dead_letters_to: Some("c".to_owned()),
        support_ordering: false,
        enable_partitioning: true,
        enable_express: true,
    }
}

fn unusual_topic() -> TopicProperties {
    let specifics = TopicSpecifics {
        filter_before_publishing: true,
        support_ordering: false,
        subscription_partitioning: true,
        ..TopicSpecifics::default()
    };
    TopicProperties::of(&unusual_queue(), &specifics)
}

fn unusual_subscription() -> SubscriptionProperties {
    let specifics = SubscriptionSpecifics {
        topic: EntityId(3),
        own_default_ttl: Span(7000),
        dead_letter_on_filter_errors: false,
        receive_disabled: false,
        rules: RuleCounts::default(),
    };
    SubscriptionProperties {
        status: EntityStatus::ReceiveDisabled,
        ..SubscriptionProperties::of(&unusual_queue(), &specifics)
    }
}

fn topic_info(properties: &TopicProperties) -> EntityInfo {
    let rules = RuleCounts { sql: 6, correlation: 7, constant: 2, with_action: 0 };
    let mut specifics = TopicSpecifics { subscriptions: 5, rules, ..TopicSpecifics::default() };
    specifics.tell(properties);
    info("a/t", properties.common(), Specifics::Topic(specifics))
}

fn subscription_info(properties: &SubscriptionProperties) -> EntityInfo {
    let specifics = SubscriptionSpecifics::of(EntityId(3), properties);
    info("a/t/Subscriptions/s", properties.common(Span::MAX), Specifics::Subscription(specifics))
}

fn written(info: &EntityInfo) -> String {
    let document = document::alone(|xml| entity(xml, ASKED.own(), info, ASKED));
    String::from_utf8(document.expect("memory takes everything")).expect("UTF-8")
}

fn written_rule(row: &RuleRow) -> String {
    let asked = Asked { path: "/a%2Ft/subscriptions/s/Rules/a%20r", ..ASKED };
    let document = document::alone(|xml| write_rule(xml, asked.own(), row));
    String::from_utf8(document.expect("memory takes everything")).expect("UTF-8")
}

/// What a body says, looked over and parsed as a request's is.
fn read<T>(
    body: &str,
    read: impl FnOnce(roxmltree::Node<'_, '_>) -> Result<T, Failure>,
) -> Result<T, String> {
    let told = |failure: Failure| {
        assert_eq!(failure.status(), 400, "{failure:?}");
        format!("{failure:?}")
    };
    let text = description::text(body.as_bytes()).map_err(told)?;
    let document = parse(text).map_err(told)?;
    description(&document).and_then(read).map_err(told)
}

/// What a description makes of an entity that has every property at its default.
fn read_properties<P: Described>(body: &str) -> Result<P, String> {
    read(body, properties::read).map(|given: Patch<P>| given.applied_to(P::default()))
}

fn read_queue(body: &str) -> Result<QueueProperties, String> {
    read_properties(body)
}

fn read_topic(body: &str) -> Result<TopicProperties, String> {
    read_properties(body)
}

fn read_subscription(body: &str) -> Result<SubscriptionProperties, String> {
    read_properties(body)
}

fn with(element: &str, inner: &str) -> String {
    format!(
        r#"<entry xmlns="http://www.w3.org/2005/Atom"><content><{element} xmlns="{}">{inner}</{element}></content></entry>"#,
        document::SERVICE_BUS
    )
}

/// ENT-3: all properties, as they were.
#[test]
fn ent_3_what_is_written_is_read_again() {
    for properties in [QueueProperties::default(), unusual_queue()] {
        let text = written(&info("q", properties.clone(), Specifics::Queue));
        assert_eq!(read_queue(&text), Ok(properties), "{text}");
    }
    for properties in [TopicProperties::default(), unusual_topic()] {
        let text = written(&topic_info(&properties));
        assert_eq!(read_topic(&text), Ok(properties), "{text}");
    }
    for properties in [SubscriptionProperties::default(), unusual_subscription()] {
        let text = written(&subscription_info(&properties));
        assert_eq!(read_subscription(&text), Ok(properties), "{text}");
    }
}

fn rows() -> Vec<RuleRow> {
    let parameters: domain::Properties = [
        ("@i", Value::Int(5)),
        ("@l", Value::Long(5_000_000_000)),
        ("@d", Value::Double(1.5)),
        ("@s", Value::String(" a<b ".to_owned())),
        ("@b", Value::Bool(true)),
        ("@t", Value::DateTime(1_767_225_600_500)),
        ("@span", Value::TimeSpan(36_000_000_001)),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    let sql = SqlText {
        text: "a = @i AND b <> 'c'".to_owned(),
        parameters: parameters.clone(),
        ..SqlText::default()
    };
    let system = [(SystemProperty::Subject, "x".to_owned()), (SystemProperty::To, "y".to_owned())];
    let conditions =
        Conditions { system: system.into(), properties: parameters, ..Conditions::default() };
    let filters = [
        RuleFilter::True,
        RuleFilter::False,
        RuleFilter::Sql(sql.clone()),
        RuleFilter::Correlation(conditions),
    ];
    let rows = filters.into_iter().flat_map(|filter| {
        [None, Some(sql.clone())].map(|action| RuleRow {
            name: "a r".to_owned(),
            filter: filter.clone(),
            action,
            created_at: Timestamp(1_767_225_600_000),
            order: 1,
        })
    });
    rows.collect()
}

/// RULE-11, RULE-29: filters, actions and typed parameters, as they were.
#[test]
fn rule_29_atom_19_to_atom_21_rules_are_read_again_as_they_are_written() {
    for row in rows() {
        let text = written_rule(&row);
        let read = read(&text, |node| rule::read(node, None)).expect(&text);
        let RuleRow { name, filter, action, .. } = row;
        assert_eq!(read, NewRule { name, filter, action }, "{text}");
    }
}

/// What the SDKs look for: names, order, one `xmlns` on the counts, text that is escaped.
#[test]
fn atom_10_to_atom_13_an_entry_has_the_shape_the_clients_parse() {
    let text = written(&info("a/b & c", unusual_queue(), Specifics::Queue));
    for part in [
        r#"<entry xmlns="http://www.w3.org/2005/Atom"><id>http://localhost:5300/a%2Ft/Subscriptions/s?api-version=2024-05&amp;enrich=False</id>"#,
        r#"<title type="text">a/b &amp; c</title>"#,
        "<published>2026-01-01T00:00:00Z</published><updated>2026-01-01T00:00:00.5Z</updated>",
        r#"<content type="application/xml"><QueueDescription xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect" xmlns:i="http://www.w3.org/2001/XMLSchema-instance"><LockDuration>PT30.5S</LockDuration>"#,
        "<SizeInBytes>512</SizeInBytes><MessageCount>10</MessageCount>",
        r#"<AuthorizationRules><AuthorizationRule i:type="SharedAccessAuthorizationRule"><ClaimType>SharedAccessKey</ClaimType><ClaimValue>None</ClaimValue><Rights><AccessRights>Manage</AccessRights><AccessRights>Send</AccessRights><AccessRights>Listen</AccessRights></Rights><CreatedTime>1970-01-01T00:00:00Z</CreatedTime><ModifiedTime>1970-01-01T00:00:00Z</ModifiedTime><KeyName>boss</KeyName><PrimaryKey>&lt;p&gt;</PrimaryKey><SecondaryKey>s+/=</SecondaryKey></AuthorizationRule></AuthorizationRules><Status>SendDisabled</Status>"#,
        r#"<CountDetails xmlns:d2p1="http://schemas.microsoft.com/netservices/2011/06/servicebus"><d2p1:ActiveMessageCount>4</d2p1:ActiveMessageCount><d2p1:DeadLetterMessageCount>4</d2p1:DeadLetterMessageCount><d2p1:ScheduledMessageCount>2</d2p1:ScheduledMessageCount>"#,
        "</CountDetails><AutoDeleteOnIdle>PT5M</AutoDeleteOnIdle>",
        "<ForwardTo>sb://localhost:5300/a/b</ForwardTo><UserMetadata> &lt;&amp;&gt; ",
        "</QueueDescription></content></entry>",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

fn position(text: &str, element: &str) -> usize {
    text.find(&format!("<{element}")).unwrap_or_else(|| panic!("no {element} in {text}"))
}

/// JS does not fill gaps, it throws.
#[test]
fn atom_11_atom_14_atom_15_http_6_documents_hold_what_js_demands_in_the_services_order() {
    let topic = written(&topic_info(&TopicProperties::default()));
    let subscription = written(&subscription_info(&SubscriptionProperties::default()));
    for (text, elements) in [
        (
            &topic,
            &[
                "DefaultMessageTimeToLive",
                "MaxSizeInMegabytes",
                "RequiresDuplicateDetection",
                "DuplicateDetectionHistoryTimeWindow",
                "EnableBatchedOperations",
                "SizeInBytes",
                "AuthorizationRules",
                "Status",
                "CreatedAt",
                "UpdatedAt",
                "AccessedAt",
                "SupportOrdering",
                "CountDetails",
                "SubscriptionCount>5<",
                "SqlFilterCount>8<",
                "CorrelationFilterCount>7<",
                "AutoDeleteOnIdle",
                "EnablePartitioning",
                "EnableExpress",
            ][..],
        ),
        (
            &subscription,
            &[
                "id>http://localhost:5300/a%2Ft/Subscriptions/s?",
                "title type=\"text\">s<",
                "LockDuration",
                "RequiresSession",
                "DefaultMessageTimeToLive",
                "DeadLetteringOnMessageExpiration",
                "DeadLetteringOnFilterEvaluationExceptions",
                "MessageCount",
                "MaxDeliveryCount",
                "EnableBatchedOperations",
                "Status",
                "CreatedAt",
                "UpdatedAt",
                "AccessedAt",
                "CountDetails",
                "AutoDeleteOnIdle",
                "EntityAvailabilityStatus",
            ][..],
        ),
    ] {
        let positions: Vec<usize> =
            elements.iter().map(|element| position(text, element)).collect();
        assert!(positions.is_sorted(), "{text}");
    }
}

/// An answer has what its version knows, and a client that says none gets what most speak.
#[test]
fn atom_26_an_answer_carries_what_its_version_knows() {
    let queue = info("q", QueueProperties::default(), Specifics::Queue);
    let topic = topic_info(&TopicProperties::default());
    for (query, large, counts) in [
        (Some("api-version=2013-10"), false, false),
        (Some("api-version=2017-04&enrich=false"), false, false),
        (Some("api-version=2021-05"), true, false),
        (Some("API-Version=2024-05"), true, true),
        (Some("api-version=2030-01"), true, true),
        (Some("enrich=false"), true, false),
        (None, true, false),
    ] {
        let asked = Asked { query, ..ASKED };
        for info in [&queue, &topic] {
            let text = document::alone(|xml| entity(xml, String::new(), info, asked)).unwrap();
            let text = String::from_utf8(text).unwrap();
            assert_eq!(text.contains("MaxMessageSizeInKilobytes"), large, "{query:?} {text}");
            let is_counted = counts && info.name == topic.name;
            assert_eq!(text.contains("SqlFilterCount"), is_counted, "{query:?} {text}");
        }
    }
}

/// Recordings of the service in azure-sdk-for-python's tests have them so.
#[test]
fn atom_10_atom_22_addresses_are_those_that_were_sent() {
    for (path, query, own, entry) in [
        (
            "/T/Subscriptions/",
            Some("api-version=2016-07"),
            "/T/Subscriptions/?api-version=2016-07",
            "/T/Subscriptions/a%20b?api-version=2016-07",
        ),
        (
            "/t/subscriptions",
            Some("$skip=0&$top=1&api-version=2017-04"),
            "/t/subscriptions?$skip=0&$top=1&api-version=2017-04",
            "/t/subscriptions/a%20b?api-version=2017-04",
        ),
        (
            "/a%2Ft/Subscriptions/s/rules/",
            None,
            "/a%2Ft/Subscriptions/s/rules/",
            "/a%2Ft/Subscriptions/s/rules/a%20b",
        ),
        (
            "/t/subscriptions",
            Some("api-version=%3Cx%3E"),
            "/t/subscriptions?api-version=%3Cx%3E",
            "/t/subscriptions/a%20b",
        ),
    ] {
        let asked = Asked { path, query, ..ASKED };
        assert_eq!(asked.own(), format!("http://localhost:5300{own}"));
        assert_eq!(asked.entry(path, "a b"), format!("http://localhost:5300{entry}"));
    }
    assert_eq!(ASKED.entry("", "x/Y~z"), "http://localhost:5300/x/Y~z?api-version=2024-05");
}

#[test]
fn atom_19_atom_20_a_rule_has_the_shape_js_parses() {
    let [_, _, _, _, sql, _, correlation, _] = &rows()[..] else { panic!("eight rules") };
    let text = written_rule(sql);
    for part in [
        "<id>http://localhost:5300/a%2Ft/subscriptions/s/Rules/a%20r?",
        r#"<RuleDescription xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect" xmlns:i="http://www.w3.org/2001/XMLSchema-instance"><Filter i:type="SqlFilter"><SqlExpression>a = @i AND b &lt;&gt; &apos;c&apos;</SqlExpression><CompatibilityLevel>20</CompatibilityLevel><Parameters>"#,
        r#"<Key>@i</Key><Value i:type="d6p1:int" xmlns:d6p1="http://www.w3.org/2001/XMLSchema">5</Value>"#,
        r#"</Filter><Action i:type="EmptyRuleAction""#,
        "<CreatedAt>2026-01-01T00:00:00Z</CreatedAt><Name>a r</Name></RuleDescription>",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    let text = written_rule(correlation);
    assert!(position(&text, "To>y<") < position(&text, "Label>x<"), "{text}");
    let none = RuleRow { filter: RuleFilter::True, ..sql.clone() };
    assert!(!written_rule(&none).contains("Parameters"));
}

/// Prefixes and order are the client's; what is read-only or unknown is passed over.
#[test]
fn atom_4_atom_5_any_prefix_and_any_order_are_read() {
    let body = r#"<?xml version='1.0' encoding='utf-8'?>
        <ns0:entry xmlns:ns0="http://www.w3.org/2005/Atom"><ns0:content type="application/xml">
        <p4:QueueDescription xmlns:p4="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect">
          <p4:MaxDeliveryCount> 7 </p4:MaxDeliveryCount>
          <p4:SizeInBytes>99</p4:SizeInBytes>
          <Status xmlns="urn:other">Disabled</Status>
          <p4:Unheard>of</p4:Unheard>
          <p4:ForwardTo/>
          <p4:AuthorizationRules/>
          <p4:EnablePartitioning>false</p4:EnablePartitioning>
          <p4:LockDuration>PT45S</p4:LockDuration>
        </p4:QueueDescription></ns0:content></ns0:entry>"#;
    let expected = QueueProperties {
        max_delivery_count: 7,
        lock_duration: Span(45_000),
        ..QueueProperties::default()
    };
    assert_eq!(read_queue(body), Ok(expected));
    assert_eq!(read_queue(&with("QueueDescription", "")), Ok(QueueProperties::default()));
}

/// Each flag that has no effect, or hardly any, and each status: as said, whatever else is said.
#[test]
fn ent_10_part_5_state_1_atom_16_what_is_said_is_read_back() {
    const QUEUE: &[(&str, &str)] = &[
        ("EnablePartitioning", "false"),
        ("EnableExpress", "false"),
        ("SupportOrdering", "true"),
        ("EnableBatchedOperations", "true"),
    ];
    const TOPIC: &[(&str, &str)] = &[
        ("EnablePartitioning", "false"),
        ("EnableSubscriptionPartitioning", "false"),
        ("EnableExpress", "false"),
        ("SupportOrdering", "true"),
        ("EnableBatchedOperations", "true"),
        ("FilteringMessagesBeforePublishing", "false"),
    ];
    for (kind, flags) in [("Queue", QUEUE), ("Topic", TOPIC)] {
        for (flag, default) in flags {
            for said in ["true", "false"] {
                let element = format!("<{flag}>{said}</{flag}>");
                let body = with(&format!("{kind}Description"), &element);
                let text = match kind {
                    "Queue" => written(&info("q", read_queue(&body).unwrap(), Specifics::Queue)),
                    _ => written(&topic_info(&read_topic(&body).unwrap())),
                };
                assert!(text.contains(&element), "{element} is not in {text}");
                let nothing = with(&format!("{kind}Description"), "");
                let text = match kind {
                    "Queue" => written(&info("q", read_queue(&nothing).unwrap(), Specifics::Queue)),
                    _ => written(&topic_info(&read_topic(&nothing).unwrap())),
                };
                assert!(text.contains(&format!("<{flag}>{default}</{flag}>")), "{flag}: {text}");
            }
        }
    }
    for status in ["Active", "Disabled", "SendDisabled", "ReceiveDisabled"] {
        let element = format!("<Status>{status}</Status>");
        let topic = read_topic(&with("TopicDescription", &element)).unwrap();
        if domain::validate::topic_properties(&topic).is_ok() {
            assert!(written(&topic_info(&topic)).contains(&element), "{status}");
        }
        let subscription = read_subscription(&with("SubscriptionDescription", &element)).unwrap();
        if domain::validate::subscription_properties(&subscription).is_ok() {
            assert!(written(&subscription_info(&subscription)).contains(&element), "{status}");
        }
    }
}

/// As the SDKs write them: cut to the path.
#[test]
fn fwd_1_atom_17_a_destination_is_a_name_or_an_absolute_uri() {
    for (text, name) in [
        ("sb://host/a/b", Some("a/b")),
        ("sb://host:5300/a%2Fb", Some("a/b")),
        ("http://localhost:5300/c/", Some("c")),
        ("c", Some("c")),
        ("sb://host", None),
        ("", None),
    ] {
        let body = with("QueueDescription", &format!("<ForwardTo>{text}</ForwardTo>"));
        assert_eq!(read_queue(&body).unwrap().forward_to.as_deref(), name, "{text}");
    }
}

/// Bodies as Python 7.15.0 sends them.
#[test]
fn pythons_dialect_is_read() {
    let head = r#"<?xml version='1.0' encoding='utf-8'?>
<ns0:entry xmlns:ns0="http://www.w3.org/2005/Atom" xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><ns0:content type="application/xml">"#;
    let tail = "</ns0:content></ns0:entry>";
    let body = format!(
        r#"{head}<TopicDescription><DefaultMessageTimeToLive>P1D</DefaultMessageTimeToLive><UserMetadata>&lt;m&gt;</UserMetadata></TopicDescription>{tail}"#
    );
    let topic = TopicProperties {
        default_ttl: Span(86_400_000),
        user_metadata: "<m>".to_owned(),
        ..TopicProperties::default()
    };
    assert_eq!(read_topic(&body), Ok(topic));
    let body = format!(
        r#"{head}<RuleDescription><Filter xsi:type="SqlFilter"><SqlExpression>a=@p</SqlExpression><CompatibilityLevel>20</CompatibilityLevel><Parameters><KeyValueOfstringanyType><Key>@p</Key><Value xsi:type="d6p1:int" xmlns:d6p1="http://www.w3.org/2001/XMLSchema">1</Value></KeyValueOfstringanyType><KeyValueOfstringanyType><Key>@d</Key><Value xsi:type="d6p1:dateTime" xmlns:d6p1="http://www.w3.org/2001/XMLSchema">2026-01-01T00:00:00+00:00</Value></KeyValueOfstringanyType><KeyValueOfstringanyType><Key>@t</Key><Value xsi:type="d6p1:duration" xmlns:d6p1="http://www.w3.org/2001/XMLSchema">PT1H</Value></KeyValueOfstringanyType></Parameters><RequiresPreprocessing>true</RequiresPreprocessing></Filter><Action xsi:type="EmptyRuleAction" /><Name>r</Name></RuleDescription>{tail}"#
    );
    let rule = read(&body, |node| rule::read(node, Some("r"))).unwrap();
    let parameters = [
        ("@p", Value::Int(1)),
        ("@d", Value::DateTime(1_767_225_600_000)),
        ("@t", Value::TimeSpan(36_000_000_000)),
    ];
    let parameters = parameters.map(|(name, value)| (name.to_owned(), value)).into();
    let written = domain::WrittenValue {
        kind: "dateTime".to_owned(),
        text: "2026-01-01T00:00:00+00:00".to_owned(),
    };
    let written = [("@d".to_owned(), written)].into();
    let sql = SqlText { text: "a=@p".to_owned(), parameters, written };
    assert_eq!(rule, NewRule { name: "r".into(), filter: RuleFilter::Sql(sql), action: None });
    for (kind, text, filter) in
        [("TrueFilter", "1=1", RuleFilter::True), ("FalseFilter", "1&gt;1", RuleFilter::False)]
    {
        let body = format!(
            r#"{head}<RuleDescription><Filter xsi:type="{kind}"><SqlExpression>{text}</SqlExpression><CompatibilityLevel>20</CompatibilityLevel><RequiresPreprocessing>true</RequiresPreprocessing></Filter><Action xsi:type="EmptyRuleAction" /><Name>r</Name></RuleDescription>{tail}"#
        );
        assert_eq!(read(&body, |node| rule::read(node, None)).unwrap().filter, filter);
    }
}

/// Bodies as JS 7.9.5 sends them.
#[test]
fn jss_dialect_is_read() {
    let body = r#"<?xml version="1.0" encoding="UTF-8" standalone="yes"?><entry xmlns="http://www.w3.org/2005/Atom"><updated>2026-11-21T23:33:39.163Z</updated><content type="application/xml"><SubscriptionDescription xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect" xmlns:i="http://www.w3.org/2001/XMLSchema-instance"><LockDuration>PT30S</LockDuration><DefaultRuleDescription><Filter p4:type="SqlFilter" xmlns:p4="http://www.w3.org/2001/XMLSchema-instance"><SqlExpression>a=@p</SqlExpression><Parameters><KeyValueOfstringanyType><Key>@p</Key><Value p4:type="l28:double" xmlns:l28="http://www.w3.org/2001/XMLSchema">5</Value></KeyValueOfstringanyType></Parameters></Filter><Action p4:type="SqlRuleAction" xmlns:p4="http://www.w3.org/2001/XMLSchema-instance"><SqlExpression>SET b=1</SqlExpression></Action><Name>first</Name></DefaultRuleDescription><ForwardTo>sb://localhost:39912/q</ForwardTo></SubscriptionDescription></content></entry>"#;
    let properties = SubscriptionProperties {
        lock_duration: Span(30_000),
        forward_to: Some("q".to_owned()),
        ..SubscriptionProperties::default()
    };
    assert_eq!(read_subscription(body), Ok(properties));
    let parameters = [("@p".to_owned(), Value::Double(5.0))].into();
    let rule = NewRule {
        name: "first".to_owned(),
        filter: RuleFilter::Sql(SqlText {
            text: "a=@p".to_owned(),
            parameters,
            ..SqlText::default()
        }),
        action: Some(SqlText { text: "SET b=1".to_owned(), ..SqlText::default() }),
    };
    assert_eq!(read(body, rule::read_first), Ok(rule));
    let none = with("SubscriptionDescription", "<LockDuration>PT30S</LockDuration>");
    assert_eq!(read(&none, rule::read_first), Ok(NewRule::default()));
}

/// ATOM-18, as Python and JS send them: keys may be left out, instants are passed over. No list at all
/// leaves the rules as they are, an empty one takes them away.
#[test]
fn ent_11_atom_18_authorization_rules_are_read() {
    let old = QueueProperties {
        authorization_rules: vec![authorization_rule("old", AccessRights::ALL)],
        ..QueueProperties::default()
    };
    let merged = |body: &str| {
        let given = read(body, properties::read).expect(body);
        given.applied_to(old.clone()).authorization_rules
    };
    assert_eq!(merged(&with("QueueDescription", "")), old.authorization_rules);
    assert_eq!(merged(&with("QueueDescription", "<AuthorizationRules/>")), []);
    let send = AccessRights { send: true, ..AccessRights::default() };
    let full = "<AuthorizationRule xmlns:i='http://www.w3.org/2001/XMLSchema-instance' i:type='SharedAccessAuthorizationRule'><ClaimType>SharedAccessKey</ClaimType><ClaimValue>None</ClaimValue><Rights><AccessRights>Send</AccessRights></Rights><CreatedTime>2026-01-01T00:00:00Z</CreatedTime><KeyName>k</KeyName><PrimaryKey>&lt;p&gt;</PrimaryKey><SecondaryKey>s+/=</SecondaryKey></AuthorizationRule>";
    let full =
        with("QueueDescription", &format!("<AuthorizationRules>{full}</AuthorizationRules>"));
    assert_eq!(merged(&full), [authorization_rule("k", send)]);
}

/// Clients leave out an empty text, and have no other way to take one away.
#[test]
fn atom_6_an_update_keeps_what_it_leaves_out_save_texts() {
    let old = QueueProperties { requires_session: false, ..unusual_queue() };
    let given = read(&with("QueueDescription", ""), properties::read).expect("nothing");
    let merged = given.applied_to(old.clone());
    let expected = QueueProperties {
        user_metadata: String::new(),
        forward_to: None,
        forward_dead_letters_to: None,
        ..old
    };
    assert_eq!(merged, expected);
}

#[test]
fn atom_9_a_boolean_is_read_in_any_case_and_as_a_digit() {
    for (text, value) in [
        ("true", true),
        ("True", true),
        ("1", true),
        ("false", false),
        (" FALSE ", false),
        ("0", false),
    ] {
        let body = with("QueueDescription", &format!("<RequiresSession>{text}</RequiresSession>"));
        assert_eq!(read_queue(&body).expect(text).requires_session, value, "{text}");
    }
    let text = written(&info("q", QueueProperties::default(), Specifics::Queue));
    assert!(text.contains("<RequiresSession>false</RequiresSession>"), "{text}");
    assert!(text.contains("<CreatedAt>2026-01-01T00:00:00Z</CreatedAt>"), "{text}");
}

/// What and where: by its name, and by its line where the parser knows no name.
#[test]
fn atom_7_http_18_what_cannot_be_read_is_told_by_name() {
    let queue = |inner: &str| with("QueueDescription", inner);
    let deep = format!("{}{}", "<a>\n".repeat(20_000), "</a>".repeat(20_000));
    let wide =
        format!("<a {}/>", (0..5000).map(|n| format!("xmlns:a{n}='b' ")).collect::<String>());
    let bomb =
        "<?xml version='1.0'?>\n<!DOCTYPE a [<!ENTITY b 'c'><!ENTITY d '&b;&b;'>]><a>&d;</a>";
    for (body, told) in [
        (queue("<LockDuration>1 minute</LockDuration>"), "LockDuration: '1 minute' is not an ISO"),
        (
            queue("\n<MaxDeliveryCount>-1</MaxDeliveryCount>"),
            "MaxDeliveryCount: '-1' is not a number (line 2, column 1)",
        ),
        (
            queue("<RequiresSession>yes</RequiresSession>"),
            "RequiresSession: 'yes' is not true or false",
        ),
        (queue("<Status>Deleting</Status>"), "Status: 'Deleting' is not Active, Disabled"),
        (
            queue("<EnablePartitioning>perhaps</EnablePartitioning>"),
            "EnablePartitioning: 'perhaps' is not true or false",
        ),
        (
            queue(
                "<AuthorizationRules><AuthorizationRule><Rights><AccessRights>Sned</AccessRights></Rights></AuthorizationRule></AuthorizationRules>",
            ),
            "AccessRights: 'Sned' is not Listen, Send or Manage",
        ),
        (
            queue(
                "<AuthorizationRules><AuthorizationRule><ClaimType>role</ClaimType></AuthorizationRule></AuthorizationRules>",
            ),
            "ClaimType: 'role' is not SharedAccessKey",
        ),
        (
            queue(
                "<AuthorizationRules><AuthorizationRule i:type='p:Allow' xmlns:i='http://www.w3.org/2001/XMLSchema-instance'/></AuthorizationRules>",
            ),
            "an AuthorizationRule is of type SharedAccessAuthorizationRule",
        ),
        (queue("<ForwardTo>%ff</ForwardTo>"), "ForwardTo: '%ff' is not the name"),
        (String::new(), "the body is no XML"),
        ("<entry".to_owned(), "the body is no XML"),
        (bomb.to_owned(), "refused at line 2, column 1: a document type is not accepted"),
        (deep, "refused at line 33, column 1: elements may be 32 deep"),
        (wide, "refused at line 1, column 1: an element may have 16 attributes"),
        ("<a/>".repeat(30_000), "the body is no XML"),
        (format!("<a>{}</a>", "<a/>".repeat(30_000)), "the body is no XML"),
        ("<entry/>".to_owned(), "the entry holds no description"),
    ] {
        let error = read_queue(&body).expect_err(&body);
        assert!(error.contains(told), "{error}");
    }
    for (filter, told) in [
        ("<Filter/>", "the i:type of Filter is '', and must be TrueFilter"),
        (r#"<Filter i:type="SqlFilter"/>"#, "Filter has no SqlExpression"),
        (r#"<Filter i:type="TrueFilter"/><Action i:type="Else"/>"#, "must be EmptyRuleAction"),
        (
            r#"<Filter i:type="CorrelationFilter"><Properties><KeyValueOfstringanyType><Key>k</Key><Value i:type="x:int">five</Value></KeyValueOfstringanyType></Properties></Filter>"#,
            "Value: 'five' is not of type int",
        ),
        (
            r#"<Filter i:type="CorrelationFilter"><Properties><KeyValueOfstringanyType><Value/></KeyValueOfstringanyType></Properties></Filter>"#,
            "a KeyValueOfstringanyType has no Key",
        ),
    ] {
        let body = with("RuleDescription", filter).replace(
            "<RuleDescription",
            &format!("<RuleDescription xmlns:i='{}'", document::INSTANCE),
        );
        let error = read(&body, |node| rule::read(node, None)).expect_err(filter);
        assert!(error.contains(told), "{error}");
    }
    assert!(description::text(&[b'<', 0xff]).is_err());
}

#[test]
fn atom_24_a_text_no_document_can_hold_spoils_none() {
    let user_metadata = "a\u{0}b\u{b}\u{ffff}\u{85}".to_owned();
    let properties = QueueProperties { user_metadata, ..QueueProperties::default() };
    let text = written(&info("q", properties, Specifics::Queue));
    assert_eq!(read_queue(&text).unwrap().user_metadata, "a\u{fffd}b\u{fffd}\u{fffd}\u{85}");
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
        if let Ok(text) = description::text(&bytes) {
            let _ = parse(text);
        }
    }

    #[test]
    fn any_elements_are_read_or_refused(text in "[<>/a:='\" !\\[\\]&;-]{0,60}") {
        if let Ok(text) = description::text(text.as_bytes()) {
            let _ = parse(text).map(|document| description(&document).is_ok());
        }
    }
}
