//! Files that bodies are taken from, on their way to workers: body after body, the large ones in parts.

use bytes::{Bytes, BytesMut};

use crate::api::Attachment;
use crate::file::Attachments;

/// Of one part.
const BYTES_MAX: usize = 1 << 20;

/// Every body of a load's files.
pub(super) fn parts(of: &Attachments) -> impl Iterator<Item = Attachment> {
    of.iter().flat_map(|(of, body)| {
        // An empty body is a part as well.
        let starts = (0..body.len().max(1)).step_by(BYTES_MAX);
        starts.map(move |at| Attachment {
            of: of.to_owned(),
            body: body.slice(at..body.len().min(at + BYTES_MAX)),
            is_more: at > 0,
        })
    })
}

/// What came of them so far.
#[derive(Default)]
pub(super) struct SentAttachments {
    attachments: Attachments,
    /// The last body, which may go on.
    last: Option<(String, BytesMut)>,
}

impl SentAttachments {
    /// # Errors
    /// It is more than a load may have.
    pub fn take(&mut self, part: Attachment) -> Result<(), String> {
        if let Some((_, body)) = self.last.as_mut().filter(|_| part.is_more) {
            // No body is larger than all of them may be.
            if body.len() > Attachments::BYTES_MAX {
                return Err("body: a file is too large".to_owned());
            }
            body.extend_from_slice(&part.body);
            return Ok(());
        }
        self.put_last()?;
        self.last = Some((part.of, BytesMut::from(&part.body[..])));
        Ok(())
    }

    fn put_last(&mut self) -> Result<(), String> {
        match self.last.take() {
            None => Ok(()),
            Some((of, body)) => self.attachments.add(&of, Bytes::from(body)),
        }
    }

    /// All of them.
    ///
    /// # Errors
    /// It is more than a load may have.
    pub fn finish(mut self) -> Result<Attachments, String> {
        self.put_last()?;
        Ok(self.attachments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_arrive_as_they_were() {
        let mut sent = Attachments::default();
        for body in [vec![], vec![1], vec![2; BYTES_MAX], vec![3; 2 * BYTES_MAX + 5]] {
            sent.add("lines of x", body.into()).expect("they are small");
        }
        let mut came = SentAttachments::default();
        let mut count = 0;
        for part in parts(&sent) {
            count += 1;
            came.take(part).expect("a part");
        }
        assert_eq!((count, came.finish()), (6, Ok(sent)));
    }
}
