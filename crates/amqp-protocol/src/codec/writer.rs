//! Encoding into a growing buffer. Nothing is measured first: a list begins short and is widened in
//! place where it turns out long.

use bytes::{BufMut, BytesMut};

use super::{Encode, code};

/// Bytes of the head of a short compound: format code, size, count.
const SHORT_HEAD: usize = 3;
/// And of a long one.
const LONG_HEAD: usize = 9;

/// Writes the fields of a list.
pub(crate) struct ListWriter<'b> {
    out: &'b mut BytesMut,
    start: usize,
    count: u32,
    /// Nulls not written yet: at the end of a trimmed list they never are.
    nulls: u32,
    trimmed: bool,
}

impl<'b> ListWriter<'b> {
    pub(crate) fn new(out: &'b mut BytesMut, trimmed: bool) -> ListWriter<'b> {
        let start = begin(out, code::LIST8);
        ListWriter { out, start, count: 0, nulls: 0, trimmed }
    }

    pub(crate) fn is_trimmed(&self) -> bool {
        self.trimmed
    }

    pub(crate) fn value(&mut self, value: &impl Encode) {
        self.flush_nulls();
        value.encode(self.out);
        self.count += 1;
    }

    pub(crate) fn null(&mut self) {
        self.nulls += 1;
    }

    pub(crate) fn finish(mut self) {
        if !self.trimmed {
            self.flush_nulls();
        }
        if self.count == 0 {
            self.out.truncate(self.start);
            self.out.put_u8(code::LIST0);
        } else {
            end(self.out, self.start, self.count);
        }
    }

    fn flush_nulls(&mut self) {
        self.out.put_bytes(code::NULL, self.nulls as usize);
        self.count += std::mem::take(&mut self.nulls);
    }
}

/// Begins a list, map or array by its short format code; [`end`] takes what this returns.
pub fn begin(out: &mut BytesMut, short_code: u8) -> usize {
    let start = out.len();
    out.put_slice(&[short_code, 0, 0]);
    start
}

/// Ends the compound begun at `start`, widening it if it is too long for its short form.
pub fn end(out: &mut BytesMut, start: usize, count: u32) {
    let content = out.len() - start - SHORT_HEAD;
    match (u8::try_from(content + 1), u8::try_from(count)) {
        (Ok(size), Ok(count)) => out[start + 1..start + SHORT_HEAD].copy_from_slice(&[size, count]),
        _ => widen(out, start, content, count),
    }
}

fn widen(out: &mut BytesMut, start: usize, content: usize, count: u32) {
    out.put_bytes(0, LONG_HEAD - SHORT_HEAD);
    let from = start + SHORT_HEAD;
    out.copy_within(from..from + content, start + LONG_HEAD);
    // Long forms are 0x10 above the short ones.
    out[start] += code::LIST32 - code::LIST8;
    // No buffer of ours reaches 4 GiB: messages and frames are bounded far below.
    let size = u32::try_from(content + 4).unwrap_or(u32::MAX);
    out[start + 1..start + 5].copy_from_slice(&size.to_be_bytes());
    out[start + 5..start + LONG_HEAD].copy_from_slice(&count.to_be_bytes());
}

/// A binary, string or symbol; `long_code` is 0x10 above the short one.
pub(crate) fn variable(out: &mut BytesMut, short_code: u8, content: &[u8]) {
    match u8::try_from(content.len()) {
        Ok(size) => out.put_slice(&[short_code, size]),
        Err(_) => {
            out.put_u8(short_code + (code::BINARY32 - code::BINARY8));
            out.put_u32(u32::try_from(content.len()).unwrap_or(u32::MAX));
        }
    }
    out.put_slice(content);
}

/// The marker and number of a described value, which follows.
pub fn descriptor(out: &mut BytesMut, descriptor: u64) {
    out.put_u8(code::DESCRIBED);
    descriptor.encode(out);
}
