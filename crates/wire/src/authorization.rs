//! Authorization rules, and the descriptions that may have some.

use domain::{AccessRights, AuthorizationRule};

use crate::codec::{put_varint, record};
use crate::{Codec, Error, Reader};

/// In the byte that says whether operations are batched: authorization rules follow it. So a
/// description without any reads as it did before there were rules.
const HAS_RULES: u8 = 2;

/// Writes the flag, and the rules if there are some.
pub(crate) fn put_flag_and_rules(flag: bool, rules: &[AuthorizationRule], out: &mut Vec<u8>) {
    match rules.is_empty() {
        true => flag.put(out),
        false => {
            out.push(u8::from(flag) | HAS_RULES);
            put_varint(rules.len() as u64, out);
            rules.iter().for_each(|rule| rule.put(out));
        }
    }
}

pub(crate) fn take_flag_and_rules(
    input: &mut Reader<'_>,
) -> Result<(bool, Vec<AuthorizationRule>), Error> {
    match input.byte()? {
        flag @ 0..HAS_RULES => Ok((flag == 1, Vec::new())),
        flags @ HAS_RULES..=3 => Ok((flags & 1 == 1, Codec::take(input)?)),
        _ => Err(Error::corrupt("flags of a description are not 0 to 3")),
    }
}

/// A description: as `record`, with a flag and the authorization rules between two `;`.
macro_rules! described {
    ($type:ty {
        $($before:ident),*; $flag:ident, $rules:ident; $($after:ident),* $(,)?
    }) => {
        impl $crate::Codec for $type {
            fn put(&self, out: &mut Vec<u8>) {
                let Self { $($before,)* $flag, $rules, $($after),* } = self;
                $($before.put(out);)*
                $crate::authorization::put_flag_and_rules(*$flag, $rules, out);
                $($after.put(out);)*
            }
            fn take(input: &mut $crate::Reader<'_>) -> Result<Self, $crate::Error> {
                $(let $before = $crate::Codec::take(input)?;)*
                let ($flag, $rules) = $crate::authorization::take_flag_and_rules(input)?;
                $(let $after = $crate::Codec::take(input)?;)*
                Ok(Self { $($before,)* $flag, $rules, $($after),* })
            }
        }
    };
}
pub(crate) use described;

record!(AuthorizationRule { name, rights, primary_key, secondary_key, created_at, modified_at });

/// One byte: 1 for Listen, 2 for Send, 4 for Manage.
impl Codec for AccessRights {
    fn put(&self, out: &mut Vec<u8>) {
        let AccessRights { listen, send, manage } = *self;
        out.push(u8::from(listen) | u8::from(send) << 1 | u8::from(manage) << 2);
    }

    fn take(input: &mut Reader<'_>) -> Result<AccessRights, Error> {
        match input.byte()? {
            bits @ 0..8 => Ok(AccessRights {
                listen: bits & 1 != 0,
                send: bits & 2 != 0,
                manage: bits & 4 != 0,
            }),
            _ => Err(Error::corrupt("unknown access right")),
        }
    }
}
