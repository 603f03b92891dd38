//! Topics, subscriptions and their rules.

use domain::{
    Conditions, NewRule, Properties, RuleCounts, RuleFilter, RuleRow, Specifics, SqlText,
    SubscriptionSpecifics, SystemProperty, TopicSpecifics, WrittenValue, WrittenValues,
};

use crate::codec::{choice, put_varint, record};
use crate::{Codec, Error, Reader};

choice!(Specifics { 0 => Queue, 1 => Topic(topic), 2 => Subscription(subscription) });
record!(RuleCounts { sql, correlation, constant, with_action });

record!(NewRule { name, filter, action });
record!(RuleRow { name, filter, action, created_at, order });
choice!(RuleFilter { 0 => True, 1 => False, 2 => Sql(sql), 3 => Correlation(conditions) });
choice!(SystemProperty {
    1 => MessageId,
    2 => SessionId,
    3 => ReplyToSessionId,
    4 => PartitionKey,
    5 => TransactionPartitionKey,
    6 => CorrelationId,
    7 => Subject,
    8 => To,
    9 => ReplyTo,
    10 => ContentType,
    11 => TimeToLive,
    12 => ScheduledEnqueueTimeUtc,
    13 => ForcePersistence,
    14 => SequenceNumber,
    15 => EnqueuedSequenceNumber,
    16 => EnqueuedTimeUtc,
    17 => ExpiresAtUtc,
    18 => DeliveryCount,
    19 => State,
    20 => DeadLetterSource,
    21 => Size,
});

/// In the place of a value's tag: how it was written follows, and then the value. So values that say
/// nothing of that read as they did before there was such.
const WRITTEN: u8 = 21;

fn put_values(values: &Properties, written: &WrittenValues, out: &mut Vec<u8>) {
    put_varint(values.len() as u64, out);
    for (name, value) in values {
        name.put(out);
        if let Some(WrittenValue { kind, text }) = written.get(name) {
            out.push(WRITTEN);
            kind.put(out);
            text.put(out);
        }
        value.put(out);
    }
}

fn take_values(input: &mut Reader<'_>) -> Result<(Properties, WrittenValues), Error> {
    let (mut values, mut written) = (Properties::new(), WrittenValues::new());
    for _ in 0..input.count()? {
        let name = String::take(input)?;
        if input.peek() == Some(WRITTEN) {
            input.byte()?;
            let value = WrittenValue { kind: Codec::take(input)?, text: Codec::take(input)? };
            written.insert(name.clone(), value);
        }
        values.insert(name, Codec::take(input)?);
    }
    Ok((values, written))
}

impl Codec for SqlText {
    fn put(&self, out: &mut Vec<u8>) {
        let SqlText { text, parameters, written } = self;
        text.put(out);
        put_values(parameters, written, out);
    }

    fn take(input: &mut Reader<'_>) -> Result<SqlText, Error> {
        let text = Codec::take(input)?;
        let (parameters, written) = take_values(input)?;
        Ok(SqlText { text, parameters, written })
    }
}

impl Codec for Conditions {
    fn put(&self, out: &mut Vec<u8>) {
        let Conditions { system, properties, written } = self;
        system.put(out);
        put_values(properties, written, out);
    }

    fn take(input: &mut Reader<'_>) -> Result<Conditions, Error> {
        let system = Codec::take(input)?;
        let (properties, written) = take_values(input)?;
        Ok(Conditions { system, properties, written })
    }
}

/// Flags of one byte: the first was once alone in it, and reads as it did.
fn put_flags<const N: usize>(flags: [bool; N], out: &mut Vec<u8>) {
    out.push(flags.iter().rev().fold(0, |byte, flag| byte << 1 | u8::from(*flag)));
}

fn take_flags<const N: usize>(input: &mut Reader<'_>) -> Result<[bool; N], Error> {
    let byte = input.byte()?;
    match byte >> N {
        0 => Ok(std::array::from_fn(|bit| byte >> bit & 1 == 1)),
        _ => Err(Error::corrupt("unknown flag of a topic or subscription")),
    }
}

impl Codec for TopicSpecifics {
    fn put(&self, out: &mut Vec<u8>) {
        let TopicSpecifics {
            filter_before_publishing,
            support_ordering,
            subscription_partitioning,
            send_disabled,
            subscriptions,
            rules,
        } = *self;
        put_flags([filter_before_publishing, subscription_partitioning, send_disabled], out);
        support_ordering.put(out);
        subscriptions.put(out);
        rules.put(out);
    }

    fn take(input: &mut Reader<'_>) -> Result<TopicSpecifics, Error> {
        let [filter_before_publishing, subscription_partitioning, send_disabled] =
            take_flags(input)?;
        Ok(TopicSpecifics {
            filter_before_publishing,
            support_ordering: Codec::take(input)?,
            subscription_partitioning,
            send_disabled,
            subscriptions: Codec::take(input)?,
            rules: Codec::take(input)?,
        })
    }
}

impl Codec for SubscriptionSpecifics {
    fn put(&self, out: &mut Vec<u8>) {
        let SubscriptionSpecifics {
            topic,
            own_default_ttl,
            dead_letter_on_filter_errors,
            receive_disabled,
            rules,
        } = *self;
        topic.put(out);
        own_default_ttl.put(out);
        put_flags([dead_letter_on_filter_errors, receive_disabled], out);
        rules.put(out);
    }

    fn take(input: &mut Reader<'_>) -> Result<SubscriptionSpecifics, Error> {
        let (topic, own_default_ttl) = (Codec::take(input)?, Codec::take(input)?);
        let [dead_letter_on_filter_errors, receive_disabled] = take_flags(input)?;
        let rules = Codec::take(input)?;
        Ok(SubscriptionSpecifics {
            topic,
            own_default_ttl,
            dead_letter_on_filter_errors,
            receive_disabled,
            rules,
        })
    }
}
