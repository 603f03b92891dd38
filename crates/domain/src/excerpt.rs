//! What a client wrote, as an error repeats it.

use std::fmt;

/// Most bytes of a client's text in an error; no character is cut apart.
pub const EXCERPT_BYTES_MAX: usize = 128;

/// Of a long text its beginning, and a sign that there is more: an error has to fit wherever it is told,
/// whatever a client wrote (ERR-31).
#[derive(Clone, Copy, Debug)]
pub struct Excerpt<'a>(pub &'a str);

impl fmt::Display for Excerpt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Excerpt(text) = self;
        if text.len() <= EXCERPT_BYTES_MAX {
            return f.write_str(text);
        }
        let mut end = EXCERPT_BYTES_MAX;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        write!(f, "{}…", &text[..end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn err_31_of_a_long_text_its_beginning_is_told() {
        for (text, told) in [
            ("short".to_owned(), "short".to_owned()),
            ("x".repeat(128), "x".repeat(128)),
            ("x".repeat(129), format!("{}…", "x".repeat(128))),
            ("x".repeat(127) + "é", format!("{}…", "x".repeat(127))),
            ("é".repeat(40_000), format!("{}…", "é".repeat(64))),
        ] {
            assert_eq!(Excerpt(&text).to_string(), told);
        }
    }
}
