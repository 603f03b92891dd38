//! What is said in an attach beside names and settle modes: by Service Bus's clients (LINK-10 to LINK-13), and
//! by those of other brokers (LINK-20 to LINK-22).

use std::time::Duration;

use amqp_protocol::codec::{
    AnyTarget, Attach, DecodeError, Map, Role, SenderSettleMode, Source, Symbol, Symbols, Value,
    code,
};
use bytestring::ByteString;
use domain::{Excerpt, Refusal, Timestamp};

/// How long a receiver lets the broker wait for a session (LINK-13).
const TIMEOUT: &str = "com.microsoft:timeout";
/// Names the entity that a sender link's messages are for, if they only go via its target (LINK-15).
pub const TRANSFER_DESTINATION: &str = "com.microsoft:transfer-destination-address";

/// How long the peer lets the broker wait for a session, 49 days at most.
///
/// # Errors
/// For what is no span (LINK-28).
pub fn timeout(attach: &Attach) -> Result<Option<Duration>, Refusal> {
    let span = |value: &Value| u64::try_from(value.as_i64()?).ok();
    let ms = typed(attach, TIMEOUT, "a number of milliseconds from 0 on", span)?;
    Ok(ms.map(|ms| Duration::from_millis(ms.min(u32::MAX.into()))))
}

/// Where the messages of a sender link go, if its target only brings them there.
///
/// # Errors
/// For what is no address (LINK-28): what was meant for another entity must not stay at the target.
pub fn transfer_destination(attach: &Attach) -> Result<Option<String>, Refusal> {
    typed(attach, TRANSFER_DESTINATION, "a text", |value| value.as_str().map(str::to_owned))
}

/// A property of an attach, of which null is none.
fn typed<T>(
    attach: &Attach,
    what: &'static str,
    expected: &str,
    read: impl FnOnce(&Value) -> Option<T>,
) -> Result<Option<T>, Refusal> {
    let value = attach.properties.as_ref().and_then(|properties| properties.get(what));
    let Some(value) = value.filter(|value| !value.is_null()) else { return Ok(None) };
    let wrong = || Refusal::Argument { what, why: format!("it is not {expected}") };
    read(value).map(Some).ok_or_else(wrong)
}

/// Tells a session's receiver how long it holds the session: .NET ticks (LINK-12).
pub fn set_locked_until(attach: &mut Attach, until: Timestamp) {
    let ticks = Value::Long(dotnet_ticks(until));
    let properties = attach.properties.take().unwrap_or_default();
    attach.properties = Some(properties.symbol("com.microsoft:locked-until-utc", ticks));
}

/// Ticks of 100 ns since the year 1.
fn dotnet_ticks(at: Timestamp) -> i64 {
    const TICKS_PER_MS: i64 = 10_000;
    const UNIX_EPOCH_TICKS: i64 = 621_355_968_000_000_000;
    let ms = i64::try_from(at.0).unwrap_or(i64::MAX);
    ms.saturating_mul(TICKS_PER_MS).saturating_add(UNIX_EPOCH_TICKS)
}

/// The distribution mode of copies (LINK-21).
const COPY: &str = "copy";
/// The other one: what one receiver is sent, no other is.
const MOVE: &str = "move";

/// Why a receiver cannot have what it asks for (LINK-20, LINK-22), in a sentence. It would take messages that it
/// did not ask for, if it were let in all the same.
pub fn not_offered(source: &Source) -> Option<String> {
    let is_known = |name: &str, filter: &Value| {
        name == SESSION_FILTER
            || is_non_exclusive(name, filter)
            || matches!(what(name, filter), Choice::Selector)
    };
    let mut filters = filters(source);
    if let Some((name, filter)) = filters.find(|(name, filter)| !is_known(name, filter)) {
        return Some(match what(name, filter) {
            Choice::NoLocal => "a no-local filter is not offered; filter by the rules of a \
                                subscription, or receive without one"
                .to_owned(),
            Choice::Selector | Choice::Other => {
                format!("the filter '{}' is not offered; receive without it", Excerpt(name))
            }
        });
    }
    let is_lasting = source.durable > 0 && source.expiry_policy.as_deref() == Some("never");
    let is_subscription = is_lasting || source.capabilities.contains("shared");
    is_subscription.then(|| {
        "subscriptions are not made by receivers; create one, and receive from \
         'TOPIC/Subscriptions/NAME'"
            .to_owned()
    })
}

/// The filters of a source that are selectors (LINK-20), and their names.
pub fn selector_filters(source: &Source) -> impl Iterator<Item = (&str, &Value)> {
    filters(source).filter(|(name, filter)| matches!(what(name, filter), Choice::Selector))
}

/// Each filter of a source, and its name.
fn filters(source: &Source) -> impl Iterator<Item = (&str, &Value)> {
    let filters = source.filter.iter().flat_map(|filter| &filter.0);
    filters.map(|(name, filter)| (name.as_str().unwrap_or_default(), filter))
}

/// Whether a filter asks for a session that others may take over (LINK-11): by its descriptor, which is
/// what counts, or by its name in the map. Either is written with and without its ending.
fn is_non_exclusive(name: &str, filter: &Value) -> bool {
    let is_named =
        |name: &str| name.strip_suffix(LIST).unwrap_or(name) == NON_EXCLUSIVE_SESSION_FILTER;
    let descriptor = match filter {
        Value::Described(parts) => Some(&parts.0),
        _ => None,
    };
    is_named(name)
        || descriptor.and_then(Value::as_str).is_some_and(is_named)
        || descriptor.and_then(Value::as_i64).is_some_and(|code| NON_EXCLUSIVE.contains(&code))
}

/// The descriptor of a selector's filter.
pub const SELECTOR_FILTER: &str = "apache.org:selector-filter:string";

/// A filter that other brokers have.
enum Choice {
    Selector,
    NoLocal,
    Other,
}

/// By its descriptor, which is what counts, or by the name that JMS clients give it.
fn what(name: &str, filter: &Value) -> Choice {
    let descriptor = match filter {
        Value::Described(parts) => Some(&parts.0),
        _ => None,
    };
    let by_name = descriptor.and_then(Value::as_str).unwrap_or(name);
    match (by_name, descriptor.and_then(Value::as_i64)) {
        (SELECTOR_FILTER | "jms-selector", _) | (_, Some(0x468c_0000_0004)) => Choice::Selector,
        ("apache.org:no-local-filter:list" | "no-local", _) | (_, Some(0x468c_0000_0003)) => {
            Choice::NoLocal
        }
        _ => Choice::Other,
    }
}

/// Whether a receiver asks for copies (LINK-21).
pub fn browses(source: &Source) -> bool {
    source.distribution_mode.as_deref() == Some(COPY)
}

/// Says in a receiver's reply what it is sent: copies, or what no other receiver is (LINK-21).
pub fn set_mode(reply: &mut Attach, is_browser: bool) {
    let source = reply.source.get_or_insert_default();
    if is_browser {
        source.distribution_mode = Some(Symbol::from_static(COPY));
        reply.snd_settle_mode = SenderSettleMode::Settled;
    } else {
        source.distribution_mode.take_if(|mode| mode.as_str() != MOVE);
    }
}

/// What a terminus of the broker's can be asked to be beside its address and filters, and is (LINK-27).
const OUTCOMES: [&str; 4] =
    ["amqp:accepted:list", "amqp:rejected:list", "amqp:released:list", "amqp:modified:list"];
/// A queue that was made for a link is one, and goes with it (LINK-23).
const DYNAMIC: [&str; 2] = ["queue", "temporary-queue"];
/// Of the coordinator (AMQP 1.0, part 4, 4.5.9).
const TRANSACTIONS: [&str; 3] =
    ["amqp:local-transactions", "amqp:multi-txns-per-ssn", "amqp:multi-ssns-per-txn"];
/// A terminus of the broker's goes with its link: none is resumed (CONN-17).
const LINK_DETACH: &str = "link-detach";

/// LINK-27: of what a client asked the broker's end of a link to be, its answer repeats what it is.
pub fn set_in_force(reply: &mut Attach) {
    let policy = |asked: &Option<Symbol>| asked.as_ref().map(|_| Symbol::from_static(LINK_DETACH));
    match (reply.role, &mut reply.source, &mut reply.target) {
        (Role::Sender, Some(source), _) => {
            source.durable = 0;
            source.expiry_policy = policy(&source.expiry_policy);
            source.timeout = 0;
            source.dynamic_node_properties.take_if(|_| !source.dynamic);
            // One that is not settled has none: its lock ends (LOCK-12).
            source.default_outcome = None;
            keep(&mut source.outcomes, &OUTCOMES);
            keep(&mut source.capabilities, if source.dynamic { &DYNAMIC } else { &[] });
        }
        (Role::Receiver, _, Some(AnyTarget::Node(target))) => {
            target.durable = 0;
            target.expiry_policy = policy(&target.expiry_policy);
            target.timeout = 0;
            target.dynamic_node_properties.take_if(|_| !target.dynamic);
            keep(&mut target.capabilities, if target.dynamic { &DYNAMIC } else { &[] });
        }
        (Role::Receiver, _, Some(AnyTarget::Coordinator(coordinator))) => {
            keep(&mut coordinator.capabilities, &TRANSACTIONS);
        }
        (Role::Sender | Role::Receiver, _, _) => {}
    }
}

fn keep(asked: &mut Symbols, offered: &[&str]) {
    asked.0.retain(|name| offered.contains(&name.as_str()));
}

/// What a receiver's filter says of sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionFilter {
    /// No session is asked for.
    Absent,
    /// Any free session.
    Next,
    Named(ByteString),
    /// .NET's opt-in, not offered here.
    NonExclusive,
}

/// The key and, described, the name of the session filter.
pub const SESSION_FILTER: &str = "com.microsoft:session-filter";
/// See [`SessionFilter::NonExclusive`].
pub const NON_EXCLUSIVE_SESSION_FILTER: &str = "com.microsoft:non-exclusive-session-filter";
/// With what the symbolic descriptors of lists end.
const LIST: &str = ":list";
/// Its numeric descriptor, in both families of the vendor's (REQ-27).
const NON_EXCLUSIVE: [i64; 2] = [0x137_0000_000E, 0x13_7000_000E];

impl SessionFilter {
    /// # Errors
    /// [`DecodeError::Type`] if the filter's value is neither text nor null.
    pub fn of(source: &Source) -> Result<SessionFilter, DecodeError> {
        let Some(filter) = &source.filter else { return Ok(SessionFilter::Absent) };
        if filters(source).any(|(name, filter)| is_non_exclusive(name, filter)) {
            return Ok(SessionFilter::NonExclusive);
        }
        // Go sends the value described, the others plain.
        let value = match filter.get(SESSION_FILTER) {
            None => return Ok(SessionFilter::Absent),
            Some(Value::Described(parts)) => &parts.1,
            Some(value) => value,
        };
        match value {
            Value::Null => Ok(SessionFilter::Next),
            Value::String(name) => Ok(SessionFilter::Named(name.clone())),
            Value::Symbol(name) => Ok(SessionFilter::Named(name.0.clone())),
            _ => Err(DecodeError::Type { expected: "session id", code: code::DESCRIBED }),
        }
    }
}

/// Names the session that was locked (LINK-10), in the form it was asked for: Go, which describes
/// it, reads no other.
pub fn set_session(source: &mut Source, session: &str) {
    let asked = source.filter.as_ref().and_then(|filter| filter.get(SESSION_FILTER));
    let name = match asked {
        Some(Value::Described(parts)) => {
            Value::Described(Box::new((parts.0.clone(), session.into())))
        }
        _ => session.into(),
    };
    source.filter = Some(Map::default().symbol(SESSION_FILTER, name));
}

#[cfg(test)]
mod tests {
    use amqp_protocol::codec::{Coordinator, Outcome, Target};

    use super::*;

    /// Each row a filter, and what is said of it.
    #[test]
    fn link_20_a_filter_that_is_not_applied_is_refused_by_name() {
        let described = |descriptor| Value::Described(Box::new((descriptor, "a = 1".into())));
        let symbol = |name| Value::Symbol(Symbol::from_static(name));
        for (name, filter, told) in [
            ("jms-selector", described(Value::Ulong(0x468c_0000_0004)), None),
            ("any", described(symbol(SELECTOR_FILTER)), None),
            (SELECTOR_FILTER, "a = 1".into(), None),
            ("no-local", described(Value::Ulong(0x468c_0000_0003)), Some("a no-local filter")),
            ("mine", described(Value::Ulong(1)), Some("the filter 'mine'")),
            (SESSION_FILTER, Value::Null, None),
            (NON_EXCLUSIVE_SESSION_FILTER, Value::Null, None),
        ] {
            let filter = Some(Map::default().symbol(name, filter));
            let source = Source { filter, ..Source::default() };
            let said = not_offered(&source);
            assert_eq!(said.is_some(), told.is_some(), "{name}: {said:?}");
            let is_selector = name == "jms-selector" || name == "any" || name == SELECTOR_FILTER;
            assert_eq!(selector_filters(&source).count(), usize::from(is_selector), "{name}");
            assert!(said.unwrap_or_default().starts_with(told.unwrap_or_default()), "{name}");
        }
        let long = Value::Symbol(Symbol("é".repeat(40_000).into()));
        let filter = Some(Map(vec![(long, Value::Null)]));
        let said = not_offered(&Source { filter, ..Source::default() }).unwrap_or_default();
        assert!(said.contains("'é") && said.chars().count() < 200, "{}", said.len());
    }

    /// Each row a property's value, and what is understood; `None`: it is refused, by its name.
    #[test]
    fn link_28_a_property_of_another_type_is_refused() {
        let with = |name: &'static str, value: Value| Attach {
            properties: Some(Map::default().symbol(name, value)),
            ..Attach::receiver("link", "q")
        };
        let ms = |ms| Some(Some(Duration::from_millis(ms)));
        for (value, understood) in [
            (Value::Uint(100), ms(100)),
            (Value::Int(0), ms(0)),
            (Value::Long(1 << 40), ms(u32::MAX.into())),
            (Value::Null, Some(None)),
            (Value::Int(-1), None),
            (Value::Ulong(u64::MAX), None),
            ("100".into(), None),
            (Value::Bool(true), None),
            (Value::Double(100.0), None),
        ] {
            let seen = timeout(&with(TIMEOUT, value.clone()));
            assert_eq!(seen.as_ref().ok(), understood.as_ref(), "{value:?}");
            assert!(seen.err().is_none_or(|error| error.to_string().contains(TIMEOUT)));
        }
        for (value, understood) in [
            ("q".into(), Some(Some("q"))),
            (Value::Symbol("q".into()), Some(Some("q"))),
            (Value::Null, Some(None)),
            (Value::Int(5), None),
            (Value::Binary("q".into()), None),
        ] {
            let seen = transfer_destination(&with(TRANSFER_DESTINATION, value.clone()));
            assert_eq!(seen.as_ref().ok().map(Option::as_deref), understood, "{value:?}");
            assert!(
                seen.err().is_none_or(|error| error.to_string().contains(TRANSFER_DESTINATION))
            );
        }
        assert_eq!(timeout(&Attach::receiver("link", "q")), Ok(None));
    }

    /// Each row how lasting a source is, what it can do, and whether that is a subscription of JMS.
    #[test]
    fn link_22_a_subscription_is_not_made_by_a_receiver() {
        for (durable, policy, capability, is_refused) in [
            (0, "link-detach", "topic", false),
            (2, "never", "topic", true),
            (1, "never", "queue", true),
            (0, "never", "queue", false),
            (0, "link-detach", "shared", true),
        ] {
            let source = Source {
                durable,
                expiry_policy: Some(Symbol::from_static(policy)),
                capabilities: [Symbol::from_static(capability)].into_iter().collect(),
                ..Source::default()
            };
            assert_eq!(
                not_offered(&source).is_some(),
                is_refused,
                "{durable} {policy} {capability}"
            );
        }
    }

    /// Each row what is asked for, whether it is a browser, and the answer.
    #[test]
    fn link_21_the_answer_names_the_distribution_mode_in_force() {
        for (asked, is_browser, told) in [
            (None, false, None),
            (Some("move"), false, Some("move")),
            (Some("copy"), true, Some("copy")),
            (Some("any-other"), false, None),
        ] {
            let mut attach = Attach::receiver("r", "q");
            let source = attach.source.get_or_insert_default();
            source.distribution_mode = asked.map(Symbol::from_static);
            assert_eq!(browses(source), is_browser);
            let mut reply = attach.reply(1024);
            set_mode(&mut reply, is_browser);
            let source = reply.source.unwrap_or_default();
            assert_eq!(source.distribution_mode.as_deref(), told, "{asked:?}");
            assert_eq!(reply.snd_settle_mode == SenderSettleMode::Settled, is_browser);
        }
    }

    fn symbols(names: &[&'static str]) -> Symbols {
        names.iter().map(|name| Symbol::from_static(name)).collect()
    }

    /// All that a source or a target can say, and what of it is in force. What stands at the client's own
    /// end of the link is the client's.
    #[test]
    fn link_3_link_27_an_answer_says_what_is_in_force_of_each_field() {
        let policy = Some(Symbol::from_static("never"));
        let named = Some(Map::default().symbol("lifetime-policy", Value::Null));
        let filter = Some(Map::default().symbol(SELECTOR_FILTER, "a = 1".into()));
        for dynamic in [false, true] {
            let capabilities = symbols(&["queue", "topic", "temporary-queue", "shared", "mine"]);
            let source = Source {
                address: Some("Q".into()),
                durable: 2,
                expiry_policy: policy.clone(),
                timeout: 30,
                dynamic,
                dynamic_node_properties: named.clone(),
                distribution_mode: Some(Symbol::from_static(MOVE)),
                filter: filter.clone(),
                default_outcome: Some(Outcome::Released),
                outcomes: symbols(&["amqp:accepted:list", "amqp:modified:list", "mine:list"]),
                capabilities: capabilities.clone(),
            };
            let target = Target {
                address: Some("Q".into()),
                durable: 1,
                expiry_policy: policy.clone(),
                timeout: 30,
                dynamic,
                dynamic_node_properties: named.clone(),
                capabilities,
            };
            let expected = if dynamic { symbols(&DYNAMIC) } else { Symbols::default() };
            let link_detach = Some(Symbol::from_static("link-detach"));
            let own_source = Source {
                durable: 0,
                expiry_policy: link_detach.clone(),
                timeout: 0,
                dynamic_node_properties: named.clone().filter(|_| dynamic),
                default_outcome: None,
                outcomes: symbols(&["amqp:accepted:list", "amqp:modified:list"]),
                capabilities: expected.clone(),
                ..source.clone()
            };
            let own_target = Target {
                durable: 0,
                expiry_policy: link_detach,
                timeout: 0,
                dynamic_node_properties: named.clone().filter(|_| dynamic),
                capabilities: expected,
                ..target.clone()
            };
            for (attach, told) in [
                (Attach::receiver("r", "Q"), (own_source, target.clone())),
                (Attach::sender("s", "Q"), (source.clone(), own_target)),
            ] {
                let (source, target) =
                    (Some(source.clone()), Some(AnyTarget::Node(target.clone())));
                let mut reply = Attach { source, target, ..attach }.reply(1024);
                set_in_force(&mut reply);
                let (source, target) = told;
                assert_eq!(reply.source, Some(source), "{dynamic}");
                assert_eq!(reply.target, Some(AnyTarget::Node(target)), "{dynamic}");
            }
        }
        // Who asks for nothing is told nothing.
        let mut reply = Attach::receiver("r", "Q").reply(1024);
        let asked = reply.clone();
        set_in_force(&mut reply);
        assert_eq!(reply, asked);
    }

    #[test]
    fn coord_1_link_27_the_coordinator_says_what_its_transactions_can_be() {
        let capabilities = symbols(&["amqp:local-transactions", "amqp:distributed-transactions"]);
        let target = Some(AnyTarget::Coordinator(Coordinator { capabilities }));
        let mut reply = Attach { target, ..Attach::sender("s", "") }.reply(1024);
        set_in_force(&mut reply);
        let capabilities = symbols(&["amqp:local-transactions"]);
        assert_eq!(reply.target, Some(AnyTarget::Coordinator(Coordinator { capabilities })));
    }

    /// LINK-10, LINK-12: a session's receiver learns how long, in .NET ticks, and which, in the form it
    /// asked in.
    #[test]
    fn link_10_link_12_a_session_attach_names_its_session() {
        let mut properties = Attach::receiver("x", "q").reply(1024);
        set_locked_until(&mut properties, Timestamp(0));
        let properties = properties.properties.unwrap();
        let ticks = Value::Long(621_355_968_000_000_000);
        assert_eq!(properties.get("com.microsoft:locked-until-utc"), Some(&ticks));
        let described = |value| Value::Described(Box::new((Value::Ulong(0x13_7000_000C), value)));
        let asked = |value| {
            let filter = Map::default().symbol("com.microsoft:session-filter", value);
            Source { filter: Some(filter), ..Source::default() }
        };
        for (mut source, name) in [
            (Source::default(), "s".into()),
            (asked(Value::Null), "s".into()),
            (asked(described(Value::Null)), described("s".into())),
        ] {
            set_session(&mut source, "s");
            let filter = source.filter.unwrap();
            assert_eq!(filter.get("com.microsoft:session-filter"), Some(&name));
        }
    }
}
