//! Composite types: described lists with named fields (AMQP 1.0, part 1, 1.4).

use bytes::BytesMut;

use super::DecodeError;
use super::reader::Fields;

/// A type of the standard that is a described list.
pub trait Composite: Sized {
    const NAME: &'static str;
    const CODE: u64;
    /// Whether trailing nulls are left out. Some clients read the fields of rare frames by position
    /// without looking how many there are (CONN-6), so only frequent ones are shortened.
    const TRIMMED: bool;

    #[doc(hidden)]
    fn read(fields: &mut Fields<'_, '_>) -> Result<Self, DecodeError>;

    /// Writes descriptor and list.
    fn write(&self, out: &mut BytesMut);
}

/// Defines composites, one line a field: `name: type` is required unless it is an `Option` or
/// `Symbols`, `name: type = default` is read as its default where absent.
macro_rules! composite {
    ($(
        $(#[$meta:meta])*
        $shape:ident $name:ident = $text:literal, $code:path {
            $( $(#[$field_meta:meta])* $field:ident : $kind:ty $(= $default:expr)? ),* $(,)?
        }
    )*) => {$(
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $( $(#[$field_meta])* pub $field: $kind, )*
        }

        impl $crate::codec::Composite for $name {
            const NAME: &'static str = $text;
            const CODE: u64 = $code;
            const TRIMMED: bool = $crate::codec::composite::composite!(@trimmed $shape);

            fn read(
                fields: &mut $crate::codec::reader::Fields<'_, '_>,
            ) -> Result<$name, $crate::codec::DecodeError> {
                let _ = &fields;
                Ok($name {
                    $( $field: $crate::codec::composite::composite!(
                        @read fields, $text, $field, $kind $(, $default)?
                    ), )*
                })
            }

            fn write(&self, out: &mut bytes::BytesMut) {
                $crate::codec::writer::descriptor(out, Self::CODE);
                #[allow(unused_mut, reason = "some composites have no fields")]
                let mut list = $crate::codec::writer::ListWriter::new(out, Self::TRIMMED);
                $( $crate::codec::composite::composite!(
                    @write list, self.$field $(, $default)?
                ); )*
                list.finish();
            }
        }

        impl $crate::codec::Decode for $name {
            fn decode(
                reader: &mut $crate::codec::Reader<'_>,
                code: u8,
            ) -> Result<$name, $crate::codec::DecodeError> {
                $crate::codec::composite::described(reader, code)
            }
        }

        impl $crate::codec::Encode for $name {
            fn encode(&self, out: &mut bytes::BytesMut) {
                $crate::codec::Composite::write(self, out);
            }
        }

        $crate::codec::primitive::field!($name);
    )*};
    (@trimmed full) => { false };
    (@trimmed trimmed) => { true };
    (@read $fields:ident, $text:literal, $field:ident, $kind:ty) => {
        <$kind as $crate::codec::primitive::Field>::read($fields)?.ok_or(
            $crate::codec::DecodeError::Missing { composite: $text, field: stringify!($field) },
        )?
    };
    (@read $fields:ident, $text:literal, $field:ident, $kind:ty, $default:expr) => {
        <$kind as $crate::codec::primitive::Field>::read($fields)?.unwrap_or($default)
    };
    (@write $list:ident, $value:expr) => {
        $crate::codec::primitive::Field::write(&$value, &mut $list)
    };
    (@write $list:ident, $value:expr, $default:expr) => {
        match $list.is_trimmed() && $value == $default {
            true => $list.null(),
            false => $crate::codec::primitive::Field::write(&$value, &mut $list),
        }
    };
}
pub(crate) use composite;

/// A composite as a value: the marker of a described value was read.
pub(crate) fn described<T: Composite>(
    reader: &mut super::Reader<'_>,
    code: u8,
) -> Result<T, DecodeError> {
    if code != super::code::DESCRIBED {
        return Err(DecodeError::Type { expected: T::NAME, code });
    }
    match reader.descriptor_code()? {
        Some(found) if found == T::CODE => reader.fields(),
        _ => Err(DecodeError::Descriptor { expected: T::NAME }),
    }
}
