//! The documents sent: an entry, a feed, and the elements of a description.

use std::io;

use domain::{Span, Timestamp};
use quick_xml::Writer;
use quick_xml::events::BytesText;
use quick_xml::writer::ElementWriter;

use super::duration;

pub(super) const ATOM: &str = "http://www.w3.org/2005/Atom";
pub(super) const SERVICE_BUS: &str =
    "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect";
pub(super) const INSTANCE: &str = "http://www.w3.org/2001/XMLSchema-instance";
const COUNTS: &str = "http://schemas.microsoft.com/netservices/2011/06/servicebus";

/// A document in the making. Writing to memory fails for nothing, so results are passed along.
pub(super) type Xml = Writer<Vec<u8>>;

/// What is said of a resource around its description.
pub(super) struct Entry<'a> {
    /// Absolute, of the resource itself, with the query it was asked with.
    pub id: String,
    pub title: &'a str,
    pub published: Timestamp,
    pub updated: Timestamp,
}

/// A document on its own.
pub(super) fn alone(write: impl FnOnce(&mut Xml) -> io::Result<()>) -> io::Result<Vec<u8>> {
    let mut xml = Writer::new(Vec::new());
    write(&mut xml)?;
    Ok(xml.into_inner())
}

/// One entry around a description. `name` is the description's element.
pub(super) fn entry(
    xml: &mut Xml,
    entry: &Entry<'_>,
    name: &str,
    description: impl FnOnce(&mut Elements<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let element = xml.create_element("entry").with_attribute(("xmlns", ATOM));
    element.write_inner_content(|xml| {
        text(xml, "id", &entry.id)?;
        title(xml, entry.title)?;
        text(xml, "published", &instant(entry.published))?;
        text(xml, "updated", &instant(entry.updated))?;
        xml.create_element("author").write_inner_content(|xml| text(xml, "name", "mayfly"))?;
        link(xml, "self", &entry.id)?;
        let content = xml.create_element("content").with_attribute(("type", "application/xml"));
        content.write_inner_content(|xml| {
            let element = xml.create_element(name).with_attribute(("xmlns", SERVICE_BUS));
            let element = element.with_attribute(("xmlns:i", INSTANCE));
            element.write_inner_content(|xml| description(&mut Elements(xml)))?;
            Ok(())
        })?;
        Ok(())
    })?;
    Ok(())
}

/// A list. Python takes a second link for "there is more", and its query for where.
pub(super) fn feed(
    xml: &mut Xml,
    name: &str,
    own: &str,
    next: Option<&str>,
    now: Timestamp,
    entries: impl FnOnce(&mut Xml) -> io::Result<()>,
) -> io::Result<()> {
    let element = xml.create_element("feed").with_attribute(("xmlns", ATOM));
    element.write_inner_content(|xml| {
        title(xml, name)?;
        text(xml, "id", own)?;
        text(xml, "updated", &instant(now))?;
        link(xml, "self", own)?;
        if let Some(next) = next {
            link(xml, "next", next)?;
        }
        entries(xml)
    })?;
    Ok(())
}

/// The elements of a description, one after the other.
pub(super) struct Elements<'a>(pub &'a mut Xml);

impl Elements<'_> {
    pub fn text(&mut self, name: &str, value: &str) -> io::Result<()> {
        text(self.0, name, value)
    }

    /// Left out where there is none.
    pub fn some(&mut self, name: &str, value: Option<&str>) -> io::Result<()> {
        value.map_or(Ok(()), |value| self.text(name, value))
    }

    pub fn flag(&mut self, name: &str, value: bool) -> io::Result<()> {
        self.text(name, if value { "true" } else { "false" })
    }

    pub fn number(&mut self, name: &str, value: impl Into<u64>) -> io::Result<()> {
        self.text(name, &value.into().to_string())
    }

    pub fn span(&mut self, name: &str, value: Span) -> io::Result<()> {
        self.text(name, &duration::format(value))
    }

    pub fn instant(&mut self, name: &str, value: Timestamp) -> io::Result<()> {
        self.text(name, &instant(value))
    }

    pub fn empty(&mut self, name: &str) -> io::Result<()> {
        self.0.create_element(name).write_empty().map(drop)
    }

    /// One with elements of its own.
    pub fn nested(
        &mut self,
        name: &str,
        content: impl FnOnce(&mut Elements<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let element = self.0.create_element(name);
        element.write_inner_content(|xml| content(&mut Elements(xml))).map(drop)
    }

    /// One that says of which type it is.
    pub fn typed(
        &mut self,
        name: &str,
        kind: &str,
        content: impl FnOnce(&mut Elements<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let element = self.0.create_element(name).with_attribute(("i:type", kind));
        element.write_inner_content(|xml| content(&mut Elements(xml))).map(drop)
    }

    /// `CountDetails`: no other attribute on it than the one declaration, or JS reads nothing. Together
    /// they are `MessageCount` (COUNT-2), so what is deferred is among the active ones here.
    pub fn counts(&mut self, counts: &domain::Counts) -> io::Result<()> {
        let element = self.0.create_element("CountDetails").with_attribute(("xmlns:d2p1", COUNTS));
        element.write_inner_content(|xml| {
            for (name, count) in [
                ("d2p1:ActiveMessageCount", counts.active + counts.deferred),
                ("d2p1:DeadLetterMessageCount", counts.dead_lettered),
                ("d2p1:ScheduledMessageCount", counts.scheduled),
                ("d2p1:TransferMessageCount", counts.transfer),
                ("d2p1:TransferDeadLetterMessageCount", counts.transfer_dead_lettered),
            ] {
                text(xml, name, &count.to_string())?;
            }
            Ok(())
        })?;
        Ok(())
    }
}

/// An element that holds text and nothing else.
pub(super) fn text(xml: &mut Xml, name: &str, text: &str) -> io::Result<()> {
    write_text(xml.create_element(name), text)
}

/// Writes it so that a parser reads it again. What no document can hold becomes a replacement
/// character, as one such text would make a whole list unreadable.
pub(super) fn write_text(element: ElementWriter<'_, Vec<u8>>, text: &str) -> io::Result<()> {
    let is_held =
        |c: char| !c.is_control() || matches!(c, '\t' | '\n' | '\r' | '\u{7f}'..='\u{9f}');
    let is_held = |c: char| is_held(c) && !matches!(c, '\u{fffe}' | '\u{ffff}');
    let held: String = text.chars().map(|c| if is_held(c) { c } else { '\u{fffd}' }).collect();
    // A carriage return would be read as a line's end.
    let escaped = quick_xml::escape::escape(&*held).replace('\r', "&#13;");
    element.write_text_content(BytesText::from_escaped(escaped)).map(drop)
}

/// ISO 8601 in UTC.
pub(super) fn instant(at: Timestamp) -> String {
    crate::instant::show_ms(i64::try_from(at.0).unwrap_or(i64::MAX))
}

fn title(xml: &mut Xml, title: &str) -> io::Result<()> {
    write_text(xml.create_element("title").with_attribute(("type", "text")), title)
}

fn link(xml: &mut Xml, rel: &str, to: &str) -> io::Result<()> {
    let element = xml.create_element("link").with_attribute(("rel", rel));
    element.with_attribute(("href", to)).write_empty().map(drop)
}
