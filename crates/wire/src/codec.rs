//! The codec's alphabet. Unsigned integers are LEB128 varints, signed ones zigzag first; values
//! that are random or fill their width are big-endian; text and bytes follow their length; a list
//! follows its count; an `Option` is 0, or 1 and the value; an enum is a tag byte and the variant.
//! Hand-written, because the hot types are many, small and numeric: a field costs its bytes and
//! no names, and a message's content decodes to a slice of the input.

use std::collections::BTreeMap;

use bytes::Bytes;
use domain::PerSubQueue;

use crate::Error;

/// A value with one binary form. `take` of what `put` wrote gives back an equal value.
pub trait Codec: Sized {
    fn put(&self, out: &mut Vec<u8>);
    fn take(input: &mut Reader<'_>) -> Result<Self, Error>;

    /// Encodes into a buffer of its own.
    fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(64);
        self.put(&mut out);
        out.into()
    }

    /// Decodes all of `bytes`: what is left over is an error.
    fn decode(bytes: &Bytes) -> Result<Self, Error> {
        let mut input = Reader::new(bytes);
        let value = Self::take(&mut input)?;
        input.finish()?;
        Ok(value)
    }
}

/// Reads through a buffer front to back. Byte strings come out as slices that share it, or, where
/// there is only borrowed memory, as copies.
pub struct Reader<'a> {
    source: Option<&'a Bytes>,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(source: &'a Bytes) -> Reader<'a> {
        Reader { source: Some(source), rest: source }
    }

    pub fn borrowed(source: &'a [u8]) -> Reader<'a> {
        Reader { source: None, rest: source }
    }

    /// Bytes not yet read.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    pub fn finish(self) -> Result<(), Error> {
        if self.rest.is_empty() { Ok(()) } else { Err(Error::corrupt("trailing bytes")) }
    }

    /// The next byte, if there is one, left where it is.
    pub fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    #[inline]
    pub fn byte(&mut self) -> Result<u8, Error> {
        let (&byte, rest) = self.rest.split_first().ok_or(Error::corrupt("truncated"))?;
        self.rest = rest;
        Ok(byte)
    }

    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let (head, rest) = self.rest.split_first_chunk().ok_or(Error::corrupt("truncated"))?;
        self.rest = rest;
        Ok(*head)
    }

    #[inline]
    pub fn varint(&mut self) -> Result<u64, Error> {
        let first = self.byte()?;
        if first < 0x80 { Ok(first.into()) } else { self.varint_after(first) }
    }

    fn varint_after(&mut self, first: u8) -> Result<u64, Error> {
        let mut value = u64::from(first & 0x7f);
        for shift in (7..64).step_by(7) {
            let byte = self.byte()?;
            if shift == 63 && byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Error::corrupt("varint exceeds 64 bits"))
    }

    /// A length-prefixed byte string. The length is checked against what is there, so a damaged
    /// one reserves nothing.
    pub fn slice(&mut self) -> Result<&'a [u8], Error> {
        let length = self.varint()?;
        if length > self.rest.len() as u64 {
            return Err(Error::corrupt("length exceeds the input"));
        }
        let (head, rest) = self.rest.split_at(length as usize);
        self.rest = rest;
        Ok(head)
    }

    pub fn bytes(&mut self) -> Result<Bytes, Error> {
        let slice = self.slice()?;
        Ok(match self.source {
            Some(source) => source.slice_ref(slice),
            None => Bytes::copy_from_slice(slice),
        })
    }

    pub fn text(&mut self) -> Result<&'a str, Error> {
        std::str::from_utf8(self.slice()?).map_err(|_| Error::corrupt("text is not UTF-8"))
    }

    /// The count of a list whose elements take at least one byte each.
    pub fn count(&mut self) -> Result<usize, Error> {
        let count = self.varint()?;
        if count > self.rest.len() as u64 {
            return Err(Error::corrupt("count exceeds the input"));
        }
        Ok(count as usize)
    }
}

/// Elements reserved ahead for a list: a damaged count reserves little, a true one grows.
const RESERVE_COUNT_MAX: usize = 256;

#[inline]
pub(crate) fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(crate) fn put_slice(slice: &[u8], out: &mut Vec<u8>) {
    put_varint(slice.len() as u64, out);
    out.extend_from_slice(slice);
}

/// A struct: its fields in the order given. Names every field, so that a new one stops the build.
macro_rules! record {
    ($type:ty { $($field:ident),* $(,)? }) => {
        impl $crate::Codec for $type {
            #[inline]
            fn put(&self, out: &mut Vec<u8>) {
                let Self { $($field),* } = self;
                $($field.put(out);)*
            }
            #[inline]
            fn take(input: &mut $crate::Reader<'_>) -> Result<Self, $crate::Error> {
                Ok(Self { $($field: $crate::Codec::take(input)?),* })
            }
        }
    };
    // The last field came later: it is absent where it says nothing, and so the record stands at the end of its
    // input.
    ($type:ty { $($field:ident),* $(,)? } then $last:ident) => {
        impl $crate::Codec for $type {
            #[inline]
            fn put(&self, out: &mut Vec<u8>) {
                let Self { $($field,)* $last } = self;
                $($field.put(out);)*
                if *$last != Default::default() {
                    $last.put(out);
                }
            }
            #[inline]
            fn take(input: &mut $crate::Reader<'_>) -> Result<Self, $crate::Error> {
                $(let $field = $crate::Codec::take(input)?;)*
                let $last = match input.remaining() {
                    0 => Default::default(),
                    _ => $crate::Codec::take(input)?,
                };
                Ok(Self { $($field,)* $last })
            }
        }
    };
}
pub(crate) use record;

/// A struct around one value: that value.
macro_rules! wrapper {
    ($($type:ident),*) => {$(
        impl $crate::Codec for $type {
            #[inline]
            fn put(&self, out: &mut Vec<u8>) {
                self.0.put(out);
            }
            #[inline]
            fn take(input: &mut $crate::Reader<'_>) -> Result<Self, $crate::Error> {
                $crate::Codec::take(input).map($type)
            }
        }
    )*};
}
pub(crate) use wrapper;

/// An enum: a tag byte and the variant's fields. A tag, once released, keeps its meaning.
macro_rules! choice {
    ($type:ty { $($tag:literal => $variant:ident $(($inner:ident))? $({ $($field:ident),* })?),*
        $(,)? }) => {
        impl $crate::Codec for $type {
            #[inline]
            fn put(&self, out: &mut Vec<u8>) {
                match self {
                    $(Self::$variant $(($inner))? $({ $($field),* })? => {
                        out.push($tag);
                        $($inner.put(out);)?
                        $($($field.put(out);)*)?
                    })*
                }
            }
            #[inline]
            fn take(input: &mut $crate::Reader<'_>) -> Result<Self, $crate::Error> {
                Ok(match input.byte()? {
                    $($tag => {
                        $(let $inner = $crate::Codec::take(input)?;)?
                        $($(let $field = $crate::Codec::take(input)?;)*)?
                        Self::$variant $(($inner))? $({ $($field),* })?
                    })*
                    _ => {
                        return Err($crate::Error::corrupt(concat!(
                            "unknown tag of ",
                            stringify!($type)
                        )));
                    }
                })
            }
        }
    };
}
pub(crate) use choice;

macro_rules! unsigned {
    ($($type:ty),*) => {$(
        impl Codec for $type {
            #[inline]
            fn put(&self, out: &mut Vec<u8>) {
                put_varint(u64::from(*self), out);
            }
            #[inline]
            fn take(input: &mut Reader<'_>) -> Result<$type, Error> {
                let value = input.varint()?;
                <$type>::try_from(value).map_err(|_| Error::corrupt("integer exceeds its width"))
            }
        }
    )*};
}
unsigned!(u16, u32, u64);

macro_rules! signed {
    ($($type:ty),*) => {$(
        impl Codec for $type {
            fn put(&self, out: &mut Vec<u8>) {
                let wide = i64::from(*self);
                put_varint((wide << 1 ^ wide >> 63) as u64, out);
            }
            fn take(input: &mut Reader<'_>) -> Result<$type, Error> {
                let zigzag = input.varint()?;
                let wide = (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64);
                <$type>::try_from(wide).map_err(|_| Error::corrupt("integer exceeds its width"))
            }
        }
    )*};
}
signed!(i8, i16, i32, i64);

macro_rules! big_endian {
    ($($type:ty),*) => {$(
        impl Codec for $type {
            #[inline]
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_be_bytes());
            }
            #[inline]
            fn take(input: &mut Reader<'_>) -> Result<$type, Error> {
                input.array().map(<$type>::from_be_bytes)
            }
        }
    )*};
}
big_endian!(u8, u128, f32, f64);

/// Of a hash.
impl Codec for [u8; 32] {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    fn take(input: &mut Reader<'_>) -> Result<[u8; 32], Error> {
        input.array()
    }
}

/// A `u64` of random bits: a varint would take ten bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Random(pub u64);

impl Codec for Random {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0.to_be_bytes());
    }

    fn take(input: &mut Reader<'_>) -> Result<Random, Error> {
        input.array().map(u64::from_be_bytes).map(Random)
    }
}

impl Codec for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn take(input: &mut Reader<'_>) -> Result<bool, Error> {
        match input.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Error::corrupt("flag is neither 0 nor 1")),
        }
    }
}

impl Codec for char {
    fn put(&self, out: &mut Vec<u8>) {
        put_varint(u64::from(u32::from(*self)), out);
    }

    fn take(input: &mut Reader<'_>) -> Result<char, Error> {
        char::from_u32(u32::take(input)?).ok_or(Error::corrupt("no such code point"))
    }
}

impl Codec for [u8; 16] {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    fn take(input: &mut Reader<'_>) -> Result<[u8; 16], Error> {
        input.array()
    }
}

impl Codec for String {
    fn put(&self, out: &mut Vec<u8>) {
        put_slice(self.as_bytes(), out);
    }

    fn take(input: &mut Reader<'_>) -> Result<String, Error> {
        input.text().map(str::to_owned)
    }
}

impl Codec for Bytes {
    fn put(&self, out: &mut Vec<u8>) {
        put_slice(self, out);
    }

    fn take(input: &mut Reader<'_>) -> Result<Bytes, Error> {
        input.bytes()
    }
}

impl<T: Codec> Codec for Box<T> {
    fn put(&self, out: &mut Vec<u8>) {
        (**self).put(out);
    }

    fn take(input: &mut Reader<'_>) -> Result<Box<T>, Error> {
        T::take(input).map(Box::new)
    }
}

impl<T: Codec> Codec for Option<T> {
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            None => out.push(0),
            Some(value) => {
                out.push(1);
                value.put(out);
            }
        }
    }

    #[inline]
    fn take(input: &mut Reader<'_>) -> Result<Option<T>, Error> {
        Ok(if bool::take(input)? { Some(T::take(input)?) } else { None })
    }
}

impl<T: Codec> Codec for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        put_varint(self.len() as u64, out);
        self.iter().for_each(|item| item.put(out));
    }

    fn take(input: &mut Reader<'_>) -> Result<Vec<T>, Error> {
        let count = input.count()?;
        let mut items = Vec::with_capacity(count.min(RESERVE_COUNT_MAX));
        for _ in 0..count {
            items.push(T::take(input)?);
        }
        Ok(items)
    }
}

impl<T: Codec> Codec for PerSubQueue<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.iter().for_each(|item| item.put(out));
    }

    fn take(input: &mut Reader<'_>) -> Result<PerSubQueue<T>, Error> {
        Ok([T::take(input)?, T::take(input)?, T::take(input)?, T::take(input)?])
    }
}

impl<K: Codec + Ord, V: Codec> Codec for BTreeMap<K, V> {
    fn put(&self, out: &mut Vec<u8>) {
        put_varint(self.len() as u64, out);
        for (key, value) in self {
            key.put(out);
            value.put(out);
        }
    }

    fn take(input: &mut Reader<'_>) -> Result<BTreeMap<K, V>, Error> {
        let count = input.count()?;
        (0..count).map(|_| <(K, V)>::take(input)).collect()
    }
}

impl<A: Codec, B: Codec> Codec for (A, B) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }

    fn take(input: &mut Reader<'_>) -> Result<(A, B), Error> {
        Ok((A::take(input)?, B::take(input)?))
    }
}
