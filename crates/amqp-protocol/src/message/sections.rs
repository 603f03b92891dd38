//! Where a message's sections lie (AMQP 1.0, part 3, 3.2). They may come in any order, since one SDK
//! writes delivery annotations after the body (FORM-1), but each at most once, save those of the
//! body.

use std::ops::Range;

use bytes::Bytes;

use crate::Limits;
use crate::codec::{DecodeError, Reader, code, descriptor};

/// An encoded message, and where its sections are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    bytes: Bytes,
    sections: Sections,
    body_kind: Option<BodyKind>,
}

/// What a body is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyKind {
    Data,
    Sequence,
    Value,
}

/// All of a message's sections. A body of several is one here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sections {
    pub header: Section,
    pub delivery_annotations: Section,
    pub message_annotations: Section,
    pub properties: Section,
    pub application_properties: Section,
    pub body: Section,
    pub footer: Section,
}

/// Where a section lies in its message, from its descriptor on; empty where there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Section {
    // Messages are far below 4 GiB.
    start: u32,
    /// After the descriptor.
    content: u32,
    end: u32,
}

impl Section {
    /// Descriptor and content.
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    pub fn is_empty(self) -> bool {
        self.start == self.end
    }
}

impl Message {
    /// Finds the sections: one walk over their heads, without allocation.
    ///
    /// # Errors
    /// [`DecodeError`] if a section is cut off, unknown, of the wrong type, or occurs twice.
    pub fn parse(bytes: Bytes, limits: &Limits) -> Result<Message, DecodeError> {
        let mut message = Message::empty();
        message.walk(&bytes, limits)?;
        message.bytes = bytes;
        Ok(message)
    }

    /// The sections before the first that is cut off or none: of a message that is refused, what tells
    /// whose it is.
    pub fn parse_head(bytes: Bytes, limits: &Limits) -> Message {
        let mut message = Message::empty();
        let _ = message.walk(&bytes, limits);
        message.bytes = bytes;
        message
    }

    fn empty() -> Message {
        Message { bytes: Bytes::new(), sections: Sections::default(), body_kind: None }
    }

    fn walk(&mut self, bytes: &Bytes, limits: &Limits) -> Result<(), DecodeError> {
        let mut reader = Reader::new(bytes, limits);
        while reader.left() > 0 {
            let start = reader.at();
            let section = reader.descriptor("message section")?;
            let content = reader.at();
            let code = reader.u8()?;
            reader.skip_content(code)?;
            // A message of 4 GiB is refused long before.
            let at = |offset: usize| u32::try_from(offset).map_err(|_| DecodeError::Size);
            let found = Section { start: at(start)?, content: at(content)?, end: at(reader.at())? };
            self.keep(section, code, found)?;
        }
        Ok(())
    }

    fn keep(&mut self, section: u64, code: u8, found: Section) -> Result<(), DecodeError> {
        let is_list = matches!(code, code::LIST0 | code::LIST8 | code::LIST32);
        // Null for an empty map, as some write it.
        let is_map = matches!(code, code::NULL | code::MAP8 | code::MAP32);
        let is_binary = matches!(code, code::BINARY8 | code::BINARY32);
        let (slot, name, fits) = match section {
            descriptor::HEADER => (&mut self.sections.header, "header", is_list),
            descriptor::DELIVERY_ANNOTATIONS => {
                (&mut self.sections.delivery_annotations, "delivery-annotations", is_map)
            }
            descriptor::MESSAGE_ANNOTATIONS => {
                (&mut self.sections.message_annotations, "message-annotations", is_map)
            }
            descriptor::PROPERTIES => (&mut self.sections.properties, "properties", is_list),
            descriptor::APPLICATION_PROPERTIES => {
                (&mut self.sections.application_properties, "application-properties", is_map)
            }
            descriptor::FOOTER => (&mut self.sections.footer, "footer", is_map),
            descriptor::DATA if is_binary => return self.keep_body(BodyKind::Data, found),
            descriptor::AMQP_SEQUENCE if is_list => {
                return self.keep_body(BodyKind::Sequence, found);
            }
            descriptor::AMQP_VALUE => return self.keep_body(BodyKind::Value, found),
            descriptor::DATA => return Err(DecodeError::Type { expected: "data", code }),
            descriptor::AMQP_SEQUENCE => {
                return Err(DecodeError::Type { expected: "amqp-sequence", code });
            }
            _ => return Err(DecodeError::Descriptor { expected: "message section" }),
        };
        if !fits {
            return Err(DecodeError::Type { expected: name, code });
        }
        if !slot.is_empty() {
            return Err(DecodeError::Section { section: name });
        }
        *slot = found;
        Ok(())
    }

    /// A body is several data sections, or several sequences, or one value, and nothing between them.
    fn keep_body(&mut self, kind: BodyKind, found: Section) -> Result<(), DecodeError> {
        match self.body_kind {
            None => self.sections.body = found,
            Some(before)
                if before == kind
                    && kind != BodyKind::Value
                    && self.sections.body.end == found.start =>
            {
                self.sections.body.end = found.end;
            }
            Some(_) => return Err(DecodeError::Section { section: "body" }),
        }
        self.body_kind = Some(kind);
        Ok(())
    }

    /// The whole encoding.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    pub fn body_kind(&self) -> Option<BodyKind> {
        self.body_kind
    }

    /// The body's sections, as encoded.
    pub fn body(&self) -> Bytes {
        self.slice(self.sections.body)
    }

    /// The encoding less the body's sections.
    pub fn without_body(&self) -> Bytes {
        let body = self.sections.body.range();
        [&self.bytes[..body.start], &self.bytes[body.end..]].concat().into()
    }

    /// Bytes of everything but the body: what limits on properties are about (MSG-7).
    pub fn header_bytes(&self) -> usize {
        self.bytes.len() - self.sections.body.range().len()
    }

    pub fn sections(&self) -> &Sections {
        &self.sections
    }

    /// A section as encoded.
    pub fn slice(&self, section: Section) -> Bytes {
        self.bytes.slice(section.range())
    }

    /// A section without its descriptor, `None` where the section is missing.
    pub fn content(&self, section: Section) -> Option<Bytes> {
        let range = section.content as usize..section.end as usize;
        (!section.is_empty()).then(|| self.bytes.slice(range))
    }
}
