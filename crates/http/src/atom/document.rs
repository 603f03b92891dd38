//! The documents sent: an entry, a feed, an error.

use std::io;

use domain::Timestamp;
use quick_xml::Writer;
use quick_xml::events::BytesText;
use quick_xml::writer::ElementWriter;

pub(super) const ATOM: &str = "http://www.w3.org/2005/Atom";
pub(super) const SERVICE_BUS: &str =
    "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect";
const INSTANCE: &str = "http://www.w3.org/2001/XMLSchema-instance";
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
    description: impl FnOnce(&mut Xml) -> io::Result<()>,
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
            element.with_attribute(("xmlns:i", INSTANCE)).write_inner_content(description)?;
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

/// ERR: what the SDKs read of a refusal.
pub(super) fn error(code: u16, detail: &str) -> io::Result<Vec<u8>> {
    alone(|xml| {
        xml.create_element("Error").write_inner_content(|xml| {
            text(xml, "Code", &code.to_string())?;
            text(xml, "Detail", detail)
        })?;
        Ok(())
    })
}

/// `CountDetails`: no other attribute on it than the one declaration, or JS reads nothing.
pub(super) fn counts(xml: &mut Xml, counts: [(&str, u64); 5]) -> io::Result<()> {
    let element = xml.create_element("CountDetails").with_attribute(("xmlns:d2p1", COUNTS));
    element.write_inner_content(|xml| {
        for (name, count) in counts {
            text(xml, &format!("d2p1:{name}"), &count.to_string())?;
        }
        Ok(())
    })?;
    Ok(())
}

/// An element that holds text and nothing else.
pub(super) fn text(xml: &mut Xml, name: &str, text: &str) -> io::Result<()> {
    xml.create_element(name).write_text_content(BytesText::new(text)).map(drop)
}

/// An element without content.
pub(super) fn empty(xml: &mut Xml, name: &str) -> io::Result<()> {
    xml.create_element(name).write_empty().map(drop)
}

/// ISO 8601 in UTC.
pub(super) fn instant(at: Timestamp) -> String {
    let ms = i64::try_from(at.0).unwrap_or(i64::MAX);
    jiff::Timestamp::from_millisecond(ms).unwrap_or(jiff::Timestamp::MAX).to_string()
}

fn title(xml: &mut Xml, title: &str) -> io::Result<()> {
    let element: ElementWriter<'_, _> =
        xml.create_element("title").with_attribute(("type", "text"));
    element.write_text_content(BytesText::new(title)).map(drop)
}

fn link(xml: &mut Xml, rel: &str, to: &str) -> io::Result<()> {
    let element = xml.create_element("link").with_attribute(("rel", rel));
    element.with_attribute(("href", to)).write_empty().map(drop)
}
