//! Where a message's sections lie (AMQP 1.0, part 3, 3.2). They may come in any order, since one SDK
//! writes delivery annotations after the body (FORM-1), but each at most once, save those of the
//! body.

use std::ops::Range;

use bytes::Bytes;

use crate::Limits;
use crate::codec::{DecodeError, Reader, code, descriptor};

/// An encoded message and its sections, each a range that begins with its descriptor; empty where
/// there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    bytes: Bytes,
    header: Place,
    delivery_annotations: Place,
    message_annotations: Place,
    properties: Place,
    application_properties: Place,
    body: Place,
    footer: Place,
    body_kind: Option<BodyKind>,
}

/// What a body is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyKind {
    Data,
    Sequence,
    Value,
}

/// A section: where it begins, where its content does, where it ends. Messages are far below 4 GiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    start: u32,
    content: u32,
    end: u32,
}

impl Place {
    pub(super) fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    pub(super) fn is_empty(self) -> bool {
        self.start == self.end
    }
}

impl Message {
    /// Finds the sections: one walk over their heads, without allocation.
    ///
    /// # Errors
    /// [`DecodeError`] if a section is cut off, unknown, of the wrong type, or occurs twice.
    pub fn parse(bytes: Bytes, limits: &Limits) -> Result<Message, DecodeError> {
        let mut message = Message {
            bytes: Bytes::new(),
            header: Place::default(),
            delivery_annotations: Place::default(),
            message_annotations: Place::default(),
            properties: Place::default(),
            application_properties: Place::default(),
            body: Place::default(),
            footer: Place::default(),
            body_kind: None,
        };
        let mut reader = Reader::new(&bytes, limits);
        while reader.left() > 0 {
            let start = reader.at();
            let section = reader.descriptor("message section")?;
            let content = reader.at();
            let code = reader.u8()?;
            reader.skip_content(code)?;
            // A message of 4 GiB is refused long before.
            let at = |offset: usize| u32::try_from(offset).map_err(|_| DecodeError::Size);
            let place = Place { start: at(start)?, content: at(content)?, end: at(reader.at())? };
            message.keep(section, code, place)?;
        }
        message.bytes = bytes;
        Ok(message)
    }

    fn keep(&mut self, section: u64, code: u8, place: Place) -> Result<(), DecodeError> {
        let is_list = matches!(code, code::LIST0 | code::LIST8 | code::LIST32);
        // Null for an empty map, as some write it.
        let is_map = matches!(code, code::NULL | code::MAP8 | code::MAP32);
        let is_binary = matches!(code, code::BINARY8 | code::BINARY32);
        let (slot, name, fits) = match section {
            descriptor::HEADER => (&mut self.header, "header", is_list),
            descriptor::DELIVERY_ANNOTATIONS => {
                (&mut self.delivery_annotations, "delivery-annotations", is_map)
            }
            descriptor::MESSAGE_ANNOTATIONS => {
                (&mut self.message_annotations, "message-annotations", is_map)
            }
            descriptor::PROPERTIES => (&mut self.properties, "properties", is_list),
            descriptor::APPLICATION_PROPERTIES => {
                (&mut self.application_properties, "application-properties", is_map)
            }
            descriptor::FOOTER => (&mut self.footer, "footer", is_map),
            descriptor::DATA if is_binary => return self.keep_body(BodyKind::Data, place),
            descriptor::AMQP_SEQUENCE if is_list => {
                return self.keep_body(BodyKind::Sequence, place);
            }
            descriptor::AMQP_VALUE => return self.keep_body(BodyKind::Value, place),
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
        *slot = place;
        Ok(())
    }

    /// A body is several data sections, or several sequences, or one value, and nothing between them.
    fn keep_body(&mut self, kind: BodyKind, place: Place) -> Result<(), DecodeError> {
        match self.body_kind {
            None => self.body = place,
            Some(found)
                if found == kind && kind != BodyKind::Value && self.body.end == place.start =>
            {
                self.body.end = place.end;
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
        self.slice(self.body)
    }

    /// The encoding less the body's sections.
    pub fn without_body(&self) -> Bytes {
        let body = self.body.range();
        [&self.bytes[..body.start], &self.bytes[body.end..]].concat().into()
    }

    /// Bytes of everything but the body: what limits on properties are about (MSG-7).
    pub fn header_bytes(&self) -> usize {
        self.bytes.len() - self.body.range().len()
    }

    pub(super) fn slice(&self, place: Place) -> Bytes {
        self.bytes.slice(place.range())
    }

    /// A section without its descriptor, `None` where the section is missing.
    pub(super) fn content(&self, place: Place) -> Option<Bytes> {
        let range = place.content as usize..place.end as usize;
        (!place.is_empty()).then(|| self.bytes.slice(range))
    }

    pub(super) fn places(&self) -> Places {
        Places {
            header: self.header,
            delivery_annotations: self.delivery_annotations,
            message_annotations: self.message_annotations,
            properties: self.properties,
            application_properties: self.application_properties,
            body: self.body,
            footer: self.footer,
        }
    }
}

/// All of a message's sections.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    pub header: Place,
    pub delivery_annotations: Place,
    pub message_annotations: Place,
    pub properties: Place,
    pub application_properties: Place,
    pub body: Place,
    pub footer: Place,
}
