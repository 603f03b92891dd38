//! A rule that was read and found to make sense.

use std::time::Duration;

use definitions::duration::{self, NEVER_MS};
use domain::{Filter, Properties, RuleError, Span};
use thiserror::Error;

use crate::effect::Effect;
use crate::error_name::ErrorName;
use crate::occasion::Occasion;
use crate::operation::Operation;
use crate::place::{Pattern, Place};
use crate::span_range::SpanRange;
use crate::written::{EffectName, WrittenRule};

/// Without a word on it, a rule is gone after this: one that was forgotten ends an evening, and no more.
const ENDS_AFTER: Span = Span(10 * 60 * 1000);

/// Where, when and what.
#[derive(Clone, Debug)]
pub struct Rule {
    pub place: Place,
    pub(crate) occasion: Occasion,
    pub effect: Effect,
    /// `None`: when somebody removes it.
    pub lasts: Option<Span>,
}

/// What is wrong with a rule: the key, and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{key}: {why}")]
pub struct RuleFault {
    pub key: &'static str,
    pub why: String,
}

fn fault<T>(key: &'static str, why: impl Into<String>) -> Result<T, RuleFault> {
    Err(RuleFault { key, why: why.into() })
}

impl Rule {
    /// # Errors
    /// The first key that says what cannot be.
    pub fn of(written: &WrittenRule) -> Result<Rule, RuleFault> {
        let effect = effect(written)?;
        let place = place(written)?;
        for operation in &place.operations {
            if !effect.suits(*operation) {
                let why = format!(
                    "'{}' cannot be done to '{}'; docs/message-faults.md has a table of what can",
                    effect.name(),
                    name(*operation)
                );
                return fault("effect", why);
            }
        }
        if let Some(protocol) = place.protocol
            && !effect.works_over(protocol)
        {
            return fault("protocol", format!("'{}' is done over AMQP only", effect.name()));
        }
        Ok(Rule { place, occasion: occasion(written)?, effect, lasts: lasts(written)? })
    }

    /// Of the text that the cluster keeps.
    ///
    /// # Errors
    /// What is wrong with it, in one line.
    pub fn parse(text: &str) -> Result<Rule, String> {
        let written: WrittenRule = serde_json::from_str(text).map_err(|error| error.to_string())?;
        Rule::of(&written).map_err(|fault| fault.to_string())
    }
}

/// As it is written.
fn name(operation: Operation) -> String {
    match serde_json::to_value(operation) {
        Ok(serde_json::Value::String(name)) => name,
        _ => format!("{operation:?}"),
    }
}

fn place(written: &WrittenRule) -> Result<Place, RuleFault> {
    let operations = written.operation.all().to_vec();
    if operations.is_empty() {
        return fault("operation", "at least one is needed");
    }
    let filter = match &written.filter {
        None => None,
        Some(_) if !operations.iter().all(|operation| operation.shows_message()) => {
            return fault("filter", "a message is at hand for 'send' and 'receive' only");
        }
        Some(text) => {
            let wrong = |error: RuleError| RuleFault { key: "filter", why: error.to_string() };
            Some(Filter::sql(text, &Properties::new()).map_err(wrong)?)
        }
    };
    let pattern = |text: &Option<String>| text.as_deref().map(Pattern::new);
    Ok(Place {
        operations,
        entity: pattern(&written.entity),
        protocol: written.protocol,
        client: pattern(&written.client),
        link: pattern(&written.link),
        key: pattern(&written.key),
        filter,
    })
}

fn occasion(written: &WrittenRule) -> Result<Occasion, RuleFault> {
    if written.probability.is_some_and(|p| !(0.0..=1.0).contains(&p)) {
        return fault("probability", "allowed is 0 to 1");
    }
    for (key, count) in [("every", written.every), ("first", written.first), ("hits", written.hits)]
    {
        if count == Some(0) {
            return fault(key, "allowed is 1 or more");
        }
    }
    let time = |key, text: &Option<String>| -> Result<Option<Duration>, RuleFault> {
        let parsed = text.as_deref().map(duration::parse).transpose();
        parsed.map_err(|why| RuleFault { key, why })
    };
    let (from, until) = (time("from", &written.from)?, time("until", &written.until)?);
    if until.is_some_and(|until| until <= from.unwrap_or_default()) {
        return fault("until", "it has to be later than 'from'");
    }
    Ok(Occasion {
        probability: written.probability,
        seed: written.seed.unwrap_or_default(),
        every: written.every,
        first: written.first,
        from,
        until,
        hits: written.hits,
    })
}

fn lasts(written: &WrittenRule) -> Result<Option<Span>, RuleFault> {
    let Some(text) = &written.ends_after else { return Ok(Some(ENDS_AFTER)) };
    match duration::parse_ms(text) {
        Ok(NEVER_MS) => Ok(None),
        Ok(0) => fault("ends_after", "allowed is more than 0s, or never"),
        Ok(ms) => Ok(Some(Span(ms))),
        Err(why) => fault("ends_after", why),
    }
}

/// What goes with an effect is there, and nothing else is.
fn effect(written: &WrittenRule) -> Result<Effect, RuleFault> {
    let word = written.effect;
    let takes = |key, is_there, effects: &[EffectName]| match is_there && !effects.contains(&word) {
        true => fault(key, "this effect has none"),
        false => Ok(()),
    };
    use EffectName as Is;
    takes("error", written.error.is_some(), &[Is::Refuse, Is::Detach, Is::Close])?;
    takes("time", written.time.is_some(), &[Is::Delay, Is::Lapse, Is::Silence])?;
    takes("phase", written.phase.is_some(), &[Is::Delay])?;
    takes("per_second", written.per_second.is_some(), &[Is::Throttle])?;
    let time = || match written.time {
        Some(time) => Ok(time),
        None => fault("time", "this effect needs one, as \"200ms\" or \"100ms..2s\""),
    };
    Ok(match word {
        Is::Delay => Effect::Delay { time: time()?, phase: written.phase.unwrap_or_default() },
        Is::Refuse => match written.error {
            Some(error) => Effect::Refuse { error },
            None => return fault("error", "this effect needs one, as \"ServiceBusy\""),
        },
        Is::LoseRequest => Effect::LoseRequest,
        Is::LoseAnswer => Effect::LoseAnswer,
        Is::Lapse => Effect::Lapse { after: written.time.unwrap_or(SpanRange::ZERO) },
        Is::Detach => Effect::Detach { error: written.error.unwrap_or(ErrorName::DetachForced) },
        Is::Close => Effect::Close { error: written.error.unwrap_or(ErrorName::ConnectionForced) },
        Is::Reset => Effect::Reset,
        Is::Silence => Effect::Silence { time: time()? },
        Is::Cut => Effect::Cut,
        Is::WithholdCredit => Effect::WithholdCredit,
        Is::Throttle => match written.per_second {
            Some(0) | None => return fault("per_second", "this effect needs one, of 1 or more"),
            Some(per_second) => Effect::Throttle { per_second },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effect::Phase;
    use crate::written::RulesFile;

    fn read(text: &str) -> Result<Rule, String> {
        let file: RulesFile = toml::from_str(&format!("[[faults]]\n{text}"))
            .map_err(|error| error.message().to_owned())?;
        Rule::of(&file.faults[0]).map_err(|fault| fault.to_string())
    }

    #[test]
    fn fault_5_each_effect_is_what_is_written() {
        let span = |text: &str| serde_json::from_str(&format!("\"{text}\"")).expect("a time");
        for (text, effect) in [
            (
                "operation = 'send'\neffect = 'delay'\ntime = '1s'",
                Effect::Delay { time: span("1s"), phase: Phase::Before },
            ),
            (
                "operation = 'complete'\neffect = 'delay'\ntime = '1s'\nphase = 'after'",
                Effect::Delay { time: span("1s"), phase: Phase::After },
            ),
            (
                "operation = ['send', 'complete']\neffect = 'refuse'\nerror = 'ServiceBusy'",
                Effect::Refuse { error: ErrorName::ServiceBusy },
            ),
            ("operation = 'receive'\neffect = 'lapse'", Effect::Lapse { after: SpanRange::ZERO }),
            (
                "operation = 'open-link'\neffect = 'detach'",
                Effect::Detach { error: ErrorName::DetachForced },
            ),
            (
                "operation = 'send'\neffect = 'throttle'\nper_second = 5",
                Effect::Throttle { per_second: 5 },
            ),
        ] {
            assert_eq!(read(text).map(|rule| rule.effect), Ok(effect), "{text}");
        }
    }

    #[test]
    fn fault_5_what_makes_no_sense_is_told_by_its_key() {
        for (text, told) in [
            ("effect = 'reset'", "missing field `operation`"),
            ("operation = []\neffect = 'reset'", "operation: at least one is needed"),
            (
                "operation = 'snd'\neffect = 'reset'",
                "allowed are the names of operations, one or a list",
            ),
            (
                "operation = 'send'\neffect = 'refuse'",
                "error: this effect needs one, as \"ServiceBusy\"",
            ),
            (
                "operation = 'send'\neffect = 'delay'",
                "time: this effect needs one, as \"200ms\" or \"100ms..2s\"",
            ),
            ("operation = 'send'\neffect = 'reset'\ntime = '1s'", "time: this effect has none"),
            (
                "operation = 'send'\neffect = 'lapse'",
                "effect: 'lapse' cannot be done to 'send'; docs/message-faults.md has a table of what can",
            ),
            (
                "operation = 'complete'\neffect = 'reset'\nfilter = 'a = 1'",
                "filter: a message is at hand for 'send' and 'receive' only",
            ),
            (
                "operation = 'send'\neffect = 'reset'\nprotocol = 'http'",
                "protocol: 'reset' is done over AMQP only",
            ),
            (
                "operation = 'send'\neffect = 'reset'\nprobability = 1.5",
                "probability: allowed is 0 to 1",
            ),
            ("operation = 'send'\neffect = 'reset'\nevery = 0", "every: allowed is 1 or more"),
            (
                "operation = 'send'\neffect = 'reset'\nfrom = '2s'\nuntil = '1s'",
                "until: it has to be later than 'from'",
            ),
            (
                "operation = 'send'\neffect = 'reset'\nends_after = '5'",
                "ends_after: '5' has no unit; write 5s or 5ms",
            ),
        ] {
            assert_eq!(read(text).err().as_deref(), Some(told), "{text}");
        }
    }

    #[test]
    fn fault_7_a_rule_ends_by_itself_unless_it_is_to_stay() {
        let lasts = |more: &str| {
            read(&format!("operation = 'send'\neffect = 'reset'\n{more}")).map(|rule| rule.lasts)
        };
        assert_eq!(lasts(""), Ok(Some(Span(600_000))));
        assert_eq!(lasts("ends_after = '2s'"), Ok(Some(Span(2_000))));
        assert_eq!(lasts("ends_after = 'never'"), Ok(None));
    }
}
