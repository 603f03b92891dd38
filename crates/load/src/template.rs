//! Texts with fields that are filled anew for every message: ids, sessions, properties.

use std::fmt::Write;

use rand::{Rng, RngExt};
use serde::{Deserialize, Deserializer, de};

const ALLOWED: &str = "{run}, {producer}, {number}, {number % 16}, {1..16}, {red|green} or {uuid}, and {{ for a brace";

/// A text with fields, read once and filled for every message.
#[derive(Clone, Debug, PartialEq)]
pub struct Template(Vec<Piece>);

#[derive(Clone, Debug, PartialEq)]
enum Piece {
    Text(String),
    Run,
    Producer,
    Number,
    /// The number's rest, divided by this.
    Turn(u64),
    Uniform(u64, u64),
    OneOf(Vec<String>),
    Uuid,
}

/// What fields are filled from.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    pub run: u32,
    /// From 0.
    pub producer: u32,
    /// Of the producer's messages, from 0.
    pub number: u64,
}

impl Template {
    /// The text for one message.
    pub fn fill(&self, of: Origin, random: &mut impl Rng) -> String {
        let mut text = String::new();
        for piece in &self.0 {
            // Writing to a string does not fail.
            let _ = match piece {
                Piece::Text(plain) => text.write_str(plain),
                Piece::Run => write!(text, "{:08x}", of.run),
                Piece::Producer => write!(text, "{}", of.producer + 1),
                Piece::Number => write!(text, "{}", of.number),
                Piece::Turn(of_all) => write!(text, "{}", of.number % of_all),
                Piece::Uniform(from, to) => write!(text, "{}", random.random_range(*from..=*to)),
                Piece::OneOf(words) => text.write_str(&words[random.random_range(0..words.len())]),
                Piece::Uuid => write!(text, "{:032x}", random.random::<u128>()),
            };
        }
        text
    }
}

impl std::str::FromStr for Template {
    type Err = String;

    fn from_str(text: &str) -> Result<Template, String> {
        let wrong = |told: String| format!("{told}; allowed is {ALLOWED}");
        let (mut pieces, mut plain, mut rest) = (Vec::new(), String::new(), text);
        while let Some(at) = rest.find(['{', '}']) {
            plain.push_str(&rest[..at]);
            let from = &rest[at..];
            if let Some(after) = from.strip_prefix("{{").or_else(|| from.strip_prefix("}}")) {
                plain.push_str(&from[..1]);
                rest = after;
                continue;
            }
            let field = from.strip_prefix('{').and_then(|from| from.split_once('}'));
            let (field, after) =
                field.ok_or_else(|| wrong(format!("'{text}' has a brace without its partner")))?;
            if !plain.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut plain)));
            }
            let piece = read(field.trim());
            pieces.push(piece.ok_or_else(|| wrong(format!("'{{{field}}}' is no field")))?);
            rest = after;
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        Ok(Template(pieces))
    }
}

fn read(field: &str) -> Option<Piece> {
    Some(match field {
        "run" => Piece::Run,
        "producer" => Piece::Producer,
        "number" => Piece::Number,
        "uuid" => Piece::Uuid,
        field if field.contains('|') => {
            Piece::OneOf(field.split('|').map(|word| word.trim().to_owned()).collect())
        }
        field => match (field.split_once('%'), field.split_once("..")) {
            (Some((what, of_all)), _) => {
                let of_all = of_all.trim().parse().ok().filter(|of_all| *of_all > 0)?;
                Piece::Turn((what.trim() == "number").then_some(of_all)?)
            }
            (None, Some((from, to))) => {
                let (from, to) = (from.trim().parse().ok()?, to.trim().parse().ok()?);
                (from <= to).then_some(Piece::Uniform(from, to))?
            }
            (None, None) => return None,
        },
    })
}

impl<'de> Deserialize<'de> for Template {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Template, D::Error> {
        String::deserialize(from)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    #[test]
    fn fields_are_filled() {
        let (mut random, of) =
            (ChaCha8Rng::seed_from_u64(1), Origin { run: 255, producer: 2, number: 37 });
        for (text, filled) in [
            ("plain", "plain"),
            ("{run}-{producer}-{number}", "000000ff-3-37"),
            ("s-{number % 16}", "s-5"),
            ("{7..7}{{x}}", "7{x}"),
            ("{red|red}", "red"),
        ] {
            let template: Template = text.parse().expect(text);
            assert_eq!(template.fill(of, &mut random), filled, "{text}");
        }
        let template: Template = "{1..3}".parse().expect("a range");
        let mut drawn: Vec<String> = (0..100).map(|_| template.fill(of, &mut random)).collect();
        drawn.sort_unstable();
        drawn.dedup();
        assert_eq!(drawn, ["1", "2", "3"]);
    }

    #[test]
    fn what_is_no_field_is_told_so() {
        for text in ["{", "}", "{id}", "{number % 0}", "{3..1}", "{run % 5}"] {
            let told = text.parse::<Template>().expect_err(text);
            assert!(told.contains("; allowed is {run}"), "{told}");
        }
    }
}
