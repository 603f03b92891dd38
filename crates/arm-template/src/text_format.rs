//! `format`: .NET's composite format strings, as far as templates use them.

use serde_json::Value;

/// As .NET shows a value in a text.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

/// `{0}`, `{0:D3}` and `{0:000}`; `{{` is a brace.
pub(crate) fn format(text: &str, arguments: &[Value]) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        out += &rest[..at];
        let (brace, after) = rest[at..].split_at(1);
        if let Some(after) = after.strip_prefix(brace) {
            out += brace;
            rest = after;
            continue;
        }
        let hole = after.split_once('}').filter(|_| brace == "{");
        let (hole, after) =
            hole.ok_or_else(|| format!("'{text}' has a brace that is not closed"))?;
        let (index, width) = hole.split_once(':').unwrap_or((hole, ""));
        let value = index.trim().parse::<usize>().ok().and_then(|index| arguments.get(index));
        let value =
            value.ok_or_else(|| format!("'{text}' asks for {{{index}}}, which is not given"))?;
        out += &padded(value, width)
            .ok_or_else(|| format!("'{hole}' is a format that is not known"))?;
        rest = after;
    }
    Ok(out + rest)
}

/// With zeros before it.
fn padded(value: &Value, width: &str) -> Option<String> {
    const WIDTH_MAX: usize = 99;
    let zeros = match width {
        "" => return Some(shown(value)),
        width if width.chars().all(|c| c == '0') => width.len(),
        width => width.strip_prefix(['D', 'd'])?.parse().ok()?,
    };
    let number = value.as_i64().filter(|_| zeros <= WIDTH_MAX)?;
    let sign = if number < 0 { "-" } else { "" };
    Some(format!("{sign}{:0>zeros$}", number.unsigned_abs()))
}

/// Year, month, day, hour, minute and second, as .NET writes an instant: `yyyy`, `MM`, `dd`, `HH`, `mm` and `ss` stand for
/// them, `u` alone for all, and nothing for `yyyyMMddTHHmmssZ`.
pub(crate) fn date(at: [u16; 6], format: &str) -> String {
    let format = match format {
        "" => "yyyyMMddTHHmmssZ",
        "u" => "yyyy-MM-dd HH:mm:ssZ",
        "d" => "MM/dd/yyyy",
        other => other,
    };
    let tokens = [("yyyy", 0), ("MM", 1), ("dd", 2), ("HH", 3), ("mm", 4), ("ss", 5)];
    let (mut out, mut rest) = (String::new(), format);
    while let Some(next) = rest.chars().next() {
        match tokens.iter().find(|(token, _)| rest.starts_with(token)) {
            Some((token, index)) => {
                out += &format!("{:0>1$}", at[*index], token.len());
                rest = &rest[token.len()..];
            }
            None => {
                out.push(next);
                rest = &rest[next.len_utf8()..];
            }
        }
    }
    out
}
