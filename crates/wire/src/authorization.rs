//! Authorization rules, and the descriptions that may have some.

use domain::{AccessRights, AuthorizationRule};

use crate::codec::{put_varint, record};
use crate::{Codec, Error, Reader};

/// In the byte that says whether operations are batched: authorization rules follow it, and what
/// else is not as it is by default. So a description without any reads as it did before there were
/// such.
const HAS_RULES: u8 = 2;
/// See [`HAS_RULES`].
const HAS_UNUSUAL: u8 = 4;

/// What a description says in that byte and right behind it.
#[derive(Default)]
pub(crate) struct Flagged {
    pub flag: bool,
    pub rules: Vec<AuthorizationRule>,
    /// A bit for each later flag that is not as it is by default.
    pub unusual: u32,
}

impl Codec for Flagged {
    fn put(&self, out: &mut Vec<u8>) {
        let has = |bit: u8, it: bool| if it { bit } else { 0 };
        let (has_rules, has_unusual) = (!self.rules.is_empty(), self.unusual != 0);
        out.push(u8::from(self.flag) | has(HAS_RULES, has_rules) | has(HAS_UNUSUAL, has_unusual));
        if has_rules {
            put_varint(self.rules.len() as u64, out);
            self.rules.iter().for_each(|rule| rule.put(out));
        }
        if has_unusual {
            self.unusual.put(out);
        }
    }

    fn take(input: &mut Reader<'_>) -> Result<Flagged, Error> {
        let flags = input.byte()?;
        if flags & !(1 | HAS_RULES | HAS_UNUSUAL) != 0 {
            return Err(Error::corrupt("flags of a description are not 0 to 7"));
        }
        Ok(Flagged {
            flag: flags & 1 != 0,
            rules: if flags & HAS_RULES != 0 { Codec::take(input)? } else { Vec::new() },
            unusual: if flags & HAS_UNUSUAL != 0 { Codec::take(input)? } else { 0 },
        })
    }
}

/// A description: as `record`, with a flag and the authorization rules between two `;`, and with
/// later flags behind a third, each with its bit.
macro_rules! described {
    ($type:ty {
        $($before:ident),*; $flag:ident, $rules:ident; $($after:ident),*;
        $($bit:literal => $later:ident),* $(,)?
    }) => {
        impl $crate::Codec for $type {
            fn put(&self, out: &mut Vec<u8>) {
                let Self { $($before,)* $flag, $rules, $($after,)* $($later),* } = self;
                let usual = Self::default();
                let unusual = 0 $(| if *$later == usual.$later { 0 } else { $bit })*;
                $($before.put(out);)*
                let (flag, rules) = (*$flag, $rules.clone());
                $crate::authorization::Flagged { flag, rules, unusual }.put(out);
                $($after.put(out);)*
            }
            fn take(input: &mut $crate::Reader<'_>) -> Result<Self, $crate::Error> {
                $(let $before = $crate::Codec::take(input)?;)*
                let $crate::authorization::Flagged { flag: $flag, rules: $rules, unusual } =
                    $crate::Codec::take(input)?;
                $(let $after = $crate::Codec::take(input)?;)*
                if unusual & !(0 $(| $bit)*) != 0 {
                    return Err($crate::Error::corrupt("unknown flag of a description"));
                }
                let usual = Self::default();
                $(let $later = usual.$later ^ (unusual & $bit != 0);)*
                Ok(Self { $($before,)* $flag, $rules, $($after,)* $($later),* })
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
