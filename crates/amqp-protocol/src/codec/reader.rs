//! A cursor over encoded values. It borrows the bytes and copies nothing.

use bytes::Bytes;

use super::{Composite, DecodeError, code};
use crate::Limits;

/// Reads values from one buffer. Depth and number of values draw on one allowance over all of them,
/// so that no nesting of limits multiplies.
pub struct Reader<'a> {
    source: &'a Bytes,
    at: usize,
    end: usize,
    depth_left: u8,
    depth_max: u8,
    values_left: u32,
    values_max: u32,
}

/// The elements of a list, map or array: how many, and where they end.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    pub count: u32,
    pub end: usize,
}

impl<'a> Reader<'a> {
    /// `values_max` also falls with the input: a value takes a byte, save the elements of an array of
    /// a type without content, and of those a few hundred are plenty.
    pub fn new(source: &'a Bytes, limits: &Limits) -> Reader<'a> {
        const EMPTY_ELEMENTS: usize = 256;
        let depth_max = limits.depth_max.min(Limits::DEPTH_CAP);
        let warranted = u32::try_from(source.len() + EMPTY_ELEMENTS).unwrap_or(u32::MAX);
        let values_max = limits.values_max.min(warranted);
        Reader {
            source,
            at: 0,
            end: source.len(),
            depth_left: depth_max,
            depth_max,
            values_left: values_max,
            values_max,
        }
    }

    /// Bytes not read yet.
    pub fn left(&self) -> usize {
        self.end - self.at
    }

    /// Offset of the next byte in the buffer.
    pub fn at(&self) -> usize {
        self.at
    }

    /// What has not been read, as a slice of the buffer.
    pub fn rest(&self) -> Bytes {
        self.source.slice(self.at..self.end)
    }

    /// # Errors
    /// [`DecodeError::Trailing`] if bytes are left.
    pub fn finish(&self) -> Result<(), DecodeError> {
        match self.left() {
            0 => Ok(()),
            left => Err(DecodeError::Trailing { left }),
        }
    }

    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        Ok(self.fixed::<1>()?[0])
    }

    pub(crate) fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_be_bytes(self.fixed()?))
    }

    pub(crate) fn fixed<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let bytes = self.take(N)?;
        bytes.try_into().map_err(|_| DecodeError::Truncated)
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        if count > self.left() {
            return Err(DecodeError::Truncated);
        }
        let bytes = &self.source[self.at..self.at + count];
        self.at += count;
        Ok(bytes)
    }

    /// A binary, string or symbol of format `code`: its content.
    pub(crate) fn variable(&mut self, code: u8, name: &'static str) -> Result<Bytes, DecodeError> {
        let count = match code {
            code::BINARY8 | code::STRING8 | code::SYMBOL8 => self.u8()? as usize,
            code::BINARY32 | code::STRING32 | code::SYMBOL32 => self.u32()? as usize,
            code => return Err(DecodeError::Type { expected: name, code }),
        };
        let start = self.at;
        self.take(count)?;
        Ok(self.source.slice(start..start + count))
    }

    /// The head of a list, map or array of format `code`.
    pub fn span(&mut self, code: u8, name: &'static str) -> Result<Span, DecodeError> {
        let (size, count) = match code {
            code::LIST0 => return Ok(Span { count: 0, end: self.at }),
            code::LIST8 | code::MAP8 | code::ARRAY8 => {
                let size = self.u8()? as usize;
                (size.checked_sub(1).ok_or(DecodeError::Size)?, u32::from(self.u8()?))
            }
            code::LIST32 | code::MAP32 | code::ARRAY32 => {
                let size = self.u32()? as usize;
                (size.checked_sub(4).ok_or(DecodeError::Size)?, self.u32()?)
            }
            code => return Err(DecodeError::Type { expected: name, code }),
        };
        if size > self.left() {
            return Err(DecodeError::Truncated);
        }
        // Elements of lists and maps take a byte at least; those of arrays may take none.
        let is_array = matches!(code, code::ARRAY8 | code::ARRAY32);
        if !is_array && count as usize > size {
            return Err(DecodeError::Size);
        }
        Ok(Span { count, end: self.at + size })
    }

    /// Reads within `end`, one level deeper. What `read` leaves unread is skipped.
    pub(crate) fn within<T>(
        &mut self,
        end: usize,
        read: impl FnOnce(&mut Reader<'a>) -> Result<T, DecodeError>,
    ) -> Result<T, DecodeError> {
        self.descend()?;
        let outer = std::mem::replace(&mut self.end, end);
        let result = read(self);
        self.end = outer;
        self.at = end;
        self.depth_left += 1;
        result
    }

    /// Reads a described value's parts, one level deeper.
    pub(crate) fn deeper<T>(
        &mut self,
        read: impl FnOnce(&mut Reader<'a>) -> Result<T, DecodeError>,
    ) -> Result<T, DecodeError> {
        self.descend()?;
        let result = read(self);
        self.depth_left += 1;
        result
    }

    fn descend(&mut self) -> Result<(), DecodeError> {
        let max = self.depth_max;
        self.depth_left = self.depth_left.checked_sub(1).ok_or(DecodeError::Depth { max })?;
        Ok(())
    }

    /// Counts `count` values that are about to be kept.
    pub fn count(&mut self, count: u32) -> Result<(), DecodeError> {
        let max = self.values_max;
        self.values_left =
            self.values_left.checked_sub(count).ok_or(DecodeError::Values { max })?;
        Ok(())
    }

    /// Values that were kept so far.
    pub(crate) fn counted(&self) -> u32 {
        self.values_max - self.values_left
    }

    /// Passes over one value.
    pub fn skip(&mut self) -> Result<(), DecodeError> {
        let code = self.u8()?;
        self.skip_content(code)
    }

    /// Passes over the content of a value whose format code was read. Descriptors may be described in
    /// their turn, but this loops where a decoder would recurse.
    pub fn skip_content(&mut self, mut code: u8) -> Result<(), DecodeError> {
        let mut values = 1u32;
        loop {
            if code == code::DESCRIBED {
                // A descriptor and a value instead of one value.
                values = values.checked_add(1).ok_or(DecodeError::Size)?;
            } else {
                self.skip_primitive(code)?;
                values -= 1;
            }
            if values == 0 {
                return Ok(());
            }
            code = self.u8()?;
        }
    }

    fn skip_primitive(&mut self, code: u8) -> Result<(), DecodeError> {
        // The high nibble says how long a content is (AMQP 1.0, part 1, 1.2.2).
        let bytes = match code >> 4 {
            0x4 => 0,
            0x5 => 1,
            0x6 => 2,
            0x7 => 4,
            0x8 => 8,
            0x9 => 16,
            0xa | 0xc | 0xe => self.u8()? as usize,
            0xb | 0xd | 0xf => self.u32()? as usize,
            _ => return Err(DecodeError::Code { code }),
        };
        self.take(bytes).map(|_| ())
    }

    /// The descriptor of a described value, as its number; a symbolic one that names a type of the
    /// standard counts as that. The described value follows.
    pub fn descriptor(&mut self, expected: &'static str) -> Result<u64, DecodeError> {
        match self.u8()? {
            code::DESCRIBED => self.descriptor_code()?.ok_or(DecodeError::Descriptor { expected }),
            code => Err(DecodeError::Type { expected, code }),
        }
    }

    /// See [`Reader::descriptor`], the marker of a described value being read. `None`: a descriptor
    /// nobody here knows.
    pub(crate) fn descriptor_code(&mut self) -> Result<Option<u64>, DecodeError> {
        match self.u8()? {
            code::ULONG0 => Ok(Some(0)),
            code::SMALL_ULONG => Ok(Some(u64::from(self.u8()?))),
            code::ULONG => Ok(Some(u64::from_be_bytes(self.fixed()?))),
            code @ (code::SYMBOL8 | code::SYMBOL32) => {
                let name = self.variable(code, "descriptor")?;
                Ok(super::descriptor::by_name(&name))
            }
            other => self.skip_content(other).map(|()| None),
        }
    }

    /// A described list: one of the standard's composite types.
    pub fn composite<T: Composite>(&mut self) -> Result<T, DecodeError> {
        match self.descriptor(T::NAME)? {
            found if found == T::CODE => self.fields(),
            _ => Err(DecodeError::Descriptor { expected: T::NAME }),
        }
    }

    /// The fields of a composite whose descriptor was read.
    pub(crate) fn fields<T: Composite>(&mut self) -> Result<T, DecodeError> {
        let code = self.u8()?;
        if !matches!(code, code::LIST0 | code::LIST8 | code::LIST32) {
            return Err(DecodeError::Type { expected: T::NAME, code });
        }
        let span = self.span(code, T::NAME)?;
        self.within(span.end, |reader| T::read(&mut Fields { reader, left: span.count }))
    }
}

/// The fields of a list, in order. Missing ones at the end read like nulls (CONN-5).
pub struct Fields<'r, 'a> {
    reader: &'r mut Reader<'a>,
    left: u32,
}

impl Fields<'_, '_> {
    /// The next field, `None` where it is null or missing.
    pub(crate) fn next<T: super::Decode>(&mut self) -> Result<Option<T>, DecodeError> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        match self.reader.u8()? {
            code::NULL => Ok(None),
            code => T::decode(self.reader, code).map(Some),
        }
    }
}
