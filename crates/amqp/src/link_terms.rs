//! What Service Bus says in an attach beside the standard's fields (LINK-10 to LINK-13).

use amqp_protocol::codec::{Attach, DecodeError, Map, Source, Value, code};
use bytestring::ByteString;
use domain::Timestamp;

/// How long the peer lets the broker wait for a session, milliseconds.
pub fn timeout_ms(attach: &Attach) -> Option<u32> {
    let value = attach.properties.as_ref()?.get("com.microsoft:timeout")?;
    value.as_i64().and_then(|ms| u32::try_from(ms).ok())
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
pub const NON_EXCLUSIVE_SESSION_FILTER: &str = "com.microsoft:non-exclusive-session-filter:list";

impl SessionFilter {
    /// # Errors
    /// [`DecodeError::Type`] if the filter's value is neither text nor null.
    pub fn of(source: &Source) -> Result<SessionFilter, DecodeError> {
        let Some(filter) = &source.filter else { return Ok(SessionFilter::Absent) };
        if filter.get(NON_EXCLUSIVE_SESSION_FILTER).is_some() {
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
    use super::*;

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
