//! Contents that say something: `colour=red;n=5;$Subject=hi` has two user properties, one of them a
//! number, and a broker property.

use bytes::Bytes;
use domain::{ContentHeader, SystemProperty, Value};

/// What rules see of such a content. What is none has no properties.
pub fn read(content: &Bytes) -> Option<ContentHeader> {
    let text = std::str::from_utf8(content).ok()?;
    let mut header = ContentHeader::default();
    for (name, value) in text.split(';').filter_map(|pair| pair.split_once('=')) {
        match name.strip_prefix('$') {
            Some(name) => {
                let property = SystemProperty::named(name).expect("a system property");
                header.texts.insert(property, value.to_owned());
            }
            None => {
                let value = match value.parse() {
                    Ok(number) => Value::Long(number),
                    Err(_) => Value::String(value.to_owned()),
                };
                header.properties.insert(name.to_owned(), value);
            }
        }
    }
    Some(header)
}
