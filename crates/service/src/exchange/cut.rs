//! What a backup asks a node about a group's rows as of a cut of the cluster.

use bytes::Bytes;
use wire::{Codec, Error, Reader};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CutRequest {
    /// They will be asked for: pin them when the cut comes by.
    Expect { number: u64 },
    /// Those behind a key.
    Rows { number: u64, after: Bytes },
    /// They will still be asked for.
    Keep { number: u64 },
    /// They are not needed any more.
    Release { number: u64 },
}

/// Rows, in the form of [`replication::rows_in`]; none at the end, or where none were asked for. Or why not.
pub(crate) type CutAnswer = Result<Option<Bytes>, String>;

impl Codec for CutRequest {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            CutRequest::Expect { number } => {
                out.push(1);
                number.put(out);
            }
            CutRequest::Rows { number, after } => {
                out.push(2);
                number.put(out);
                after.put(out);
            }
            CutRequest::Release { number } => {
                out.push(3);
                number.put(out);
            }
            CutRequest::Keep { number } => {
                out.push(4);
                number.put(out);
            }
        }
    }

    fn take(input: &mut Reader<'_>) -> Result<CutRequest, Error> {
        Ok(match input.byte()? {
            1 => CutRequest::Expect { number: u64::take(input)? },
            2 => CutRequest::Rows { number: u64::take(input)?, after: Bytes::take(input)? },
            3 => CutRequest::Release { number: u64::take(input)? },
            4 => CutRequest::Keep { number: u64::take(input)? },
            _ => return Err(Error::Corrupt { what: "unknown tag of a request about a cut" }),
        })
    }
}
