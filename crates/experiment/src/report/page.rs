//! The page: one file that holds its data, its style and its script, and asks for nothing else.

use std::io;

use super::Report;

const TEMPLATE: &str = include_str!("page.html");
/// Where the data go.
const DATA: &str = "{{data}}";

/// The page of a report.
pub fn page(report: &Report) -> io::Result<String> {
    let data = serde_json::to_string(report)?;
    // Inside a script element nothing may look like its end.
    Ok(TEMPLATE.replacen(DATA, &data.replace('<', "\\u003c"), 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_asks_for_nothing() {
        assert_eq!(TEMPLATE.matches(DATA).count(), 1);
        for asks in ["src=", "href=", "url(", "fetch(", "@import"] {
            assert!(!TEMPLATE.contains(asks), "'{asks}' in the page");
        }
        // The one address in it names a notation, and is never asked for.
        assert_eq!(TEMPLATE.matches("://").count(), TEMPLATE.matches("http://www.w3.org/").count());
    }
}
