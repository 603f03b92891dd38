//! The descriptions received: a body is looked over before it is parsed, so that no document takes
//! more memory than some times its size, and its elements are read by name, whatever prefixes their
//! namespaces have.

use axum::http::StatusCode;
use domain::{EntityStatus, Excerpt, Span};
use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use roxmltree::{Document, Node};

use super::document::{INSTANCE, SERVICE_BUS};
use super::duration;
use crate::failure::Failure;

/// Far above the largest description there is.
pub(crate) const BODY_BYTES_MAX: usize = 256 * 1024;
/// Elements and texts of one body: a rule may have thousands of conditions.
const NODES_MAX: u32 = 20_000;
/// Descriptions are eight deep.
const DEPTH_MAX: usize = 32;
/// Of one element; a parser keeps the namespaces in scope for every element that declares one.
const ATTRIBUTES_MAX: usize = 16;

/// The body as text, if it is one that may be parsed.
pub(crate) fn text(body: &[u8]) -> Result<&str, Failure> {
    let text = std::str::from_utf8(body).map_err(|error| {
        Failure::bad(format!("the body is not UTF-8, from byte {}", error.valid_up_to()))
    })?;
    look_over(text).map(|()| text)
}

pub(crate) fn parse(text: &str) -> Result<Document<'_>, Failure> {
    let options = roxmltree::ParsingOptions { nodes_limit: NODES_MAX, ..Default::default() };
    Document::parse_with_options(text, options)
        .map_err(|error| Failure::unread("the body is no XML", &error))
}

/// Refuses what would take much memory or time to parse, or is defined elsewhere. What is no XML at
/// all is the parser's to tell.
fn look_over(text: &str) -> Result<(), Failure> {
    let mut reader = Reader::from_str(text);
    let mut depth = 0usize;
    loop {
        let at = usize::try_from(reader.buffer_position()).unwrap_or(usize::MAX);
        let refuse = |what: &str| {
            Err(Failure::bad(format!("the body is refused at {}: {what}", place(text, at))))
        };
        let event = match reader.read_event() {
            Ok(Event::Eof) | Err(_) => return Ok(()),
            Ok(event) => event,
        };
        match event {
            Event::DocType(_) => return refuse("a document type is not accepted"),
            Event::Start(element) | Event::Empty(element) if is_wide(&element) => {
                return refuse(&format!("an element may have {ATTRIBUTES_MAX} attributes"));
            }
            Event::Start(_) if depth == DEPTH_MAX => {
                return refuse(&format!("elements may be {DEPTH_MAX} deep"));
            }
            Event::Start(_) => depth += 1,
            Event::End(_) => depth = depth.saturating_sub(1),
            _ => (),
        }
    }
}

fn is_wide(element: &BytesStart<'_>) -> bool {
    element.attributes().with_checks(false).nth(ATTRIBUTES_MAX).is_some()
}

/// As editors count.
fn place(text: &str, at: usize) -> String {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    format!("line {line}, column {column}")
}

/// The description in an entry.
pub(super) fn description<'a, 'input>(
    document: &'a Document<'input>,
) -> Result<Node<'a, 'input>, Failure> {
    let is_one =
        |node: &Node<'_, '_>| is_ours(node) && node.tag_name().name().ends_with("Description");
    document.descendants().find(is_one).ok_or_else(|| {
        Failure::bad(format!(
            "the entry holds no description: put one of {SERVICE_BUS} into its content, as a \
             QueueDescription"
        ))
    })
}

/// The description in an entry, which must be of this kind.
pub(super) fn description_of<'a, 'input>(
    document: &'a Document<'input>,
    element: &str,
) -> Result<Node<'a, 'input>, Failure> {
    let found = description(document)?;
    match found.tag_name().name() {
        name if name == element => Ok(found),
        other => {
            Err(Failure::bad(format!("this path takes a {element}, not a {}", Excerpt(other))))
        }
    }
}

fn is_ours(node: &Node<'_, '_>) -> bool {
    node.is_element() && node.tag_name().namespace() == Some(SERVICE_BUS)
}

/// The elements of a description; those of other namespaces are passed over.
pub(super) fn elements<'a, 'input>(
    of: Node<'a, 'input>,
) -> impl Iterator<Item = Element<'a, 'input>> {
    of.children().filter(is_ours).map(Element)
}

/// An element by its name.
pub(super) fn element<'a, 'input>(of: Node<'a, 'input>, name: &str) -> Option<Element<'a, 'input>> {
    elements(of).find(|element| element.name() == name)
}

/// An element, to be read as what it should be.
#[derive(Clone, Copy)]
pub(super) struct Element<'a, 'input>(pub Node<'a, 'input>);

impl<'a> Element<'a, '_> {
    pub fn name(self) -> &'a str {
        self.0.tag_name().name()
    }

    /// As it is, white space and all.
    pub fn text(self) -> &'a str {
        self.0.text().unwrap_or_default()
    }

    fn word(self) -> &'a str {
        self.text().trim()
    }

    /// The text, unless there is none.
    pub fn some_text(self) -> Option<String> {
        Some(self.text().to_owned()).filter(|text| !text.is_empty())
    }

    /// What its `type` of the schema instance says, less the prefix.
    pub fn kind(self) -> Option<&'a str> {
        let kind = self.0.attribute((INSTANCE, "type"))?.trim();
        Some(kind.rsplit_once(':').map_or(kind, |(_, name)| name))
    }

    pub fn is_nil(self) -> bool {
        matches!(self.0.attribute((INSTANCE, "nil")), Some("true" | "1"))
    }

    pub fn wrong(self, expected: &str) -> Failure {
        let at = self.0.document().text_pos_at(self.0.range().start);
        let what = format!("{}: '{}' is not {expected}", self.name(), Excerpt(self.word()));
        let place = format!("line {}, column {}", at.row, at.col);
        Failure::new(StatusCode::BAD_REQUEST, Some(40000), format!("{what} ({place})"))
    }

    pub fn span(self) -> Result<Span, Failure> {
        duration::parse(self.word())
            .ok_or_else(|| self.wrong("an ISO 8601 duration such as PT1M or P14D"))
    }

    pub fn number(self) -> Result<u32, Failure> {
        self.word().parse().map_err(|_| self.wrong("a number"))
    }

    pub fn flag(self) -> Result<bool, Failure> {
        match self.word().to_ascii_lowercase().as_str() {
            "true" | "1" => Ok(true),
            "false" | "0" => Ok(false),
            _ => Err(self.wrong("true or false")),
        }
    }

    /// The name of an entity: clients write it as it is, or as the path of an absolute URI. Empty:
    /// none.
    pub fn destination(self) -> Result<Option<String>, Failure> {
        let name = auth::addressed(self.word());
        if name.contains(char::REPLACEMENT_CHARACTER) {
            return Err(self.wrong("the name or the URI of an entity")); // It is no text.
        }
        Ok(Some(name).filter(|name| !name.is_empty()))
    }

    /// STATE-1.
    pub fn status(self) -> Result<EntityStatus, Failure> {
        let found = EntityStatus::ALL.into_iter().find(|status| status.as_str() == self.word());
        found.ok_or_else(|| self.wrong("Active, Disabled, SendDisabled or ReceiveDisabled"))
    }
}
