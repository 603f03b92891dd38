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
        let end = (0..=EXCERPT_BYTES_MAX).rev().find(|&end| text.is_char_boundary(end));
        write!(f, "{}…", &text[..end.unwrap_or(0)])
    }
}

/// What a parser says of a client's text, and may repeat of it: of a long error its beginning, and its
/// end too, where parsers say at which place (ERR-31).
#[derive(Clone, Copy, Debug)]
pub struct Abridged<'a>(pub &'a str);

impl fmt::Display for Abridged<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Most bytes of the end, enough for what is expected and a place.
        const END_BYTES_MAX: usize = 64;
        let Abridged(text) = self;
        if text.len() <= EXCERPT_BYTES_MAX + END_BYTES_MAX {
            return f.write_str(text);
        }
        let from = (text.len() - END_BYTES_MAX..).find(|&from| text.is_char_boundary(from));
        write!(f, "{}{}", Excerpt(text), &text[from.unwrap_or(text.len())..])
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

    #[test]
    fn err_31_of_a_long_error_its_beginning_and_its_end_are_told() {
        let end = " at line 1 column 9";
        for (text, told) in [
            (format!("unknown field `x`{end}"), format!("unknown field `x`{end}")),
            ("x".repeat(192), "x".repeat(192)),
            (
                "x".repeat(200_000) + end,
                format!("{}…{}{end}", "x".repeat(128), "x".repeat(64 - end.len())),
            ),
            ("é".repeat(97), format!("{}…{}", "é".repeat(64), "é".repeat(32))),
            ("x".repeat(200) + &"é".repeat(31) + "y", {
                format!("{}…x{}y", "x".repeat(128), "é".repeat(31))
            }),
        ] {
            assert_eq!(Abridged(&text).to_string(), told);
        }
    }
}
