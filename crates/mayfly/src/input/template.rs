//! Templates: text with fields of a JSON object in braces, as in "quake {id} of {mag}".

use serde_json::Value;

/// A template, read once and filled for every line.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq)]
enum Piece {
    Text(String),
    /// A path into the object: `a.b` is field `b` of field `a`.
    Field(String),
}

impl Template {
    /// `{{` and `}}` stand for the braces themselves.
    pub fn parse(text: &str) -> Result<Template, String> {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            let (before, from) = rest.split_at(at);
            plain.push_str(before);
            if let Some(after) = from.strip_prefix("{{") {
                plain.push('{');
                rest = after;
            } else if let Some(after) = from.strip_prefix("}}") {
                plain.push('}');
                rest = after;
            } else if let Some((field, after)) =
                from.strip_prefix('{').and_then(|from| from.split_once('}'))
                && !field.is_empty()
                && !field.contains('{')
            {
                pieces.push(Piece::Text(std::mem::take(&mut plain)));
                pieces.push(Piece::Field(field.to_owned()));
                rest = after;
            } else {
                return Err(format!(
                    "'{text}' has a brace without its partner; write {{field}}, or {{{{ for a brace"
                ));
            }
        }
        plain.push_str(rest);
        pieces.push(Piece::Text(plain));
        pieces.retain(|piece| *piece != Piece::Text(String::new()));
        Ok(Template { pieces })
    }

    /// The text with the object's fields: strings as they are, null as nothing, the rest as JSON.
    pub fn fill(&self, object: &Value) -> Result<String, String> {
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(plain) => text.push_str(plain),
                Piece::Field(path) => match look_up(object, path) {
                    Some(Value::String(value)) => text.push_str(value),
                    Some(Value::Null) => (),
                    Some(value) => text.push_str(&value.to_string()),
                    None => return Err(format!("the line has no field '{path}'")),
                },
            }
        }
        Ok(text)
    }
}

/// A field by its whole name, or else by the path its dots make.
fn look_up<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    if let Some(value) = object.get(path) {
        return Some(value);
    }
    let (first, rest) = path.split_once('.')?;
    look_up(object.get(first)?, rest)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_filled_in() {
        let line = json!({"id": "us1", "mag": 5.3, "at": {"lat": 1}, "a.b": 2, "none": null});
        for (text, filled) in [
            ("{id}", "us1"),
            ("quake {id} of {mag}!", "quake us1 of 5.3!"),
            ("{at.lat}/{a.b}", "1/2"),
            ("[{none}]", "[]"),
            ("{{{id}}}", "{us1}"),
            ("{at}", "{\"lat\":1}"),
            ("", ""),
        ] {
            let template = Template::parse(text).expect(text);
            assert_eq!(template.fill(&line).as_deref(), Ok(filled), "{text}");
        }
        let missing = Template::parse("{magnitude}").expect("it is a template");
        assert_eq!(missing.fill(&line), Err("the line has no field 'magnitude'".to_owned()));
    }

    #[test]
    fn a_lone_brace_is_refused() {
        for text in ["{id", "id}", "{}", "{a{b}}"] {
            assert!(Template::parse(text).is_err(), "{text}");
        }
    }
}
