//! A template as people write it: JSON with comments; and on which line of it something stands.

use jsonc_parser::ast::Value as Ast;
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast, parse_to_serde_value};
use serde_json::Value;

/// As Resource Manager takes it: `az` puts a template into its request with a name that is not quoted.
pub const DIALECT: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_loose_object_property_names: true,
    allow_trailing_commas: true,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// # Errors
/// What is no JSON, and where.
pub fn read(text: &str) -> Result<Value, String> {
    parse_to_serde_value(text, &DIALECT).map_err(|error| error.to_string())
}

/// The line, from 1, of what a path like `resources[3].properties.lockDuration` leads to, or of the last on the way to it
/// that is there.
pub fn line_of(text: &str, path: &str) -> Option<usize> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &DIALECT).ok()?;
    let root = parsed.value?;
    let (mut value, mut at) = (&root, root.start());
    for step in steps(path) {
        let (next, start) = match (value, step) {
            (Ast::Object(of), Step::Member(name)) => {
                let is_it = |known: &str| known.eq_ignore_ascii_case(name);
                let Some(found) = of.properties.iter().find(|one| is_it(one.name.as_str())) else {
                    break;
                };
                (&found.value, found.start())
            }
            (Ast::Array(of), Step::Item(index)) => {
                let Some(found) = of.elements.get(index) else { break };
                (found, found.start())
            }
            _ => break,
        };
        (value, at) = (next, start);
    }
    Some(text.get(..at)?.matches('\n').count() + 1)
}

enum Step<'p> {
    Member(&'p str),
    Item(usize),
}

/// Behind an index there may stand which turn of its loop it is.
fn steps(path: &str) -> impl Iterator<Item = Step<'_>> {
    path.split('.').flat_map(|part| {
        let part = part.split(" (").next().unwrap_or_default();
        let (name, indices) = part.split_once('[').unwrap_or((part, ""));
        let member = (!name.is_empty()).then_some(Step::Member(name));
        let items = indices.split('[').filter_map(|one| one.trim_end_matches(']').parse().ok());
        member.into_iter().chain(items.map(Step::Item))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_leads_to_its_line() {
        let text = "{\n  // what it is\n  template: {\n    \"resources\": [\n      {\"a\": 1},\n      {\n        \"properties\": {\n          \"x\": [1,\n            2]\n        }\n      },\n    ]\n  }\n}";
        assert!(read(text).is_ok(), "{:?}", read(text));
        for (path, line) in [
            ("template", 3),
            ("template.resources", 4),
            ("template.resources[0].a", 5),
            ("template.resources[1]", 6),
            ("template.resources[1] (turn 2).properties", 7),
            ("template.resources[1].Properties.x[1]", 9),
            ("template.resources[1].properties.gone", 7),
            ("template.resources[9]", 4),
            ("", 1),
        ] {
            assert_eq!(line_of(text, path), Some(line), "{path}");
        }
        assert_eq!(line_of("{", "a"), None);
    }
}
