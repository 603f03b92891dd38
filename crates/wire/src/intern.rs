//! Text that the domain holds as `&'static str` because it is written in its source. What another
//! version of the binary wrote there need not be in ours, so decoding keeps each distinct text once
//! and for ever, up to a bound that no set of honest versions comes near.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use crate::codec::put_slice;
use crate::{Codec, Error, Reader};

const TEXTS_MAX: usize = 1024;
const TEXT_BYTES_MAX: usize = 512;
/// Stands in for what is past the bounds: a refusal stays a refusal, only its words are lost.
const FORGOTTEN: &str = "(text not kept)";

static TEXTS: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

impl Codec for &'static str {
    fn put(&self, out: &mut Vec<u8>) {
        put_slice(self.as_bytes(), out);
    }

    fn take(input: &mut Reader<'_>) -> Result<&'static str, Error> {
        input.text().map(intern)
    }
}

fn intern(text: &str) -> &'static str {
    let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = texts.get(text) {
        return known;
    }
    if texts.len() == TEXTS_MAX || text.len() > TEXT_BYTES_MAX {
        return FORGOTTEN;
    }
    let kept: &'static str = Box::leak(text.into());
    texts.insert(kept);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_kept_once_and_a_huge_one_not_at_all() {
        assert!(std::ptr::eq(intern("disabled"), intern(&String::from("disabled"))));
        assert_eq!(intern(&"x".repeat(TEXT_BYTES_MAX + 1)), FORGOTTEN);
    }
}
