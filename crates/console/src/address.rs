//! What a page is about, and the addresses of pages.

use domain::subscription_path;
use wire::v1::SubQueue;

use crate::form::Fields;

/// An entity, as addresses name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Queue(String),
    Topic(String),
    Subscription { topic: String, name: String },
}

impl Place {
    pub fn of(fields: &Fields) -> Option<Place> {
        let owned = str::to_owned;
        match (fields.given("queue"), fields.given("topic"), fields.given("subscription")) {
            (Some(name), _, _) => Some(Place::Queue(owned(name))),
            (None, Some(topic), Some(name)) => {
                Some(Place::Subscription { topic: owned(topic), name: owned(name) })
            }
            (None, Some(name), None) => Some(Place::Topic(owned(name))),
            (None, None, _) => None,
        }
    }

    pub fn kind(&self) -> &'static str {
        match self {
            Place::Queue(_) => "queue",
            Place::Topic(_) => "topic",
            Place::Subscription { .. } => "subscription",
        }
    }

    /// As the native API names it where messages are meant.
    pub fn path(&self) -> String {
        match self {
            Place::Queue(name) | Place::Topic(name) => name.clone(),
            Place::Subscription { topic, name } => subscription_path(topic, name),
        }
    }

    /// Where what is sent to it goes: of a subscription, to its topic.
    pub fn target(&self) -> &str {
        match self {
            Place::Queue(name) | Place::Topic(name) => name,
            Place::Subscription { topic, .. } => topic,
        }
    }

    pub fn has_messages(&self) -> bool {
        !matches!(self, Place::Topic(_))
    }

    /// The fields that name it.
    pub fn fields(&self) -> Vec<(&'static str, &str)> {
        match self {
            Place::Queue(name) => vec![("queue", name)],
            Place::Topic(name) => vec![("topic", name)],
            Place::Subscription { topic, name } => vec![("topic", topic), ("subscription", name)],
        }
    }

    /// Of a page about it.
    pub fn link(&self, page: &str, more: &[(&str, &str)]) -> String {
        let fields = self.fields();
        link(page, fields.iter().chain(more).copied())
    }
}

/// `page`: as in "messages".
pub(crate) fn link<'a>(page: &str, fields: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(fields);
    match query.finish() {
        query if query.is_empty() => format!("/console/{page}"),
        query => format!("/console/{page}?{query}"),
    }
}

/// Which of an entity's queues is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Main,
    DeadLetter,
    TransferDeadLetter,
}

impl Part {
    pub fn of(fields: &Fields) -> Part {
        match fields.text("part") {
            "dead-letter" => Part::DeadLetter,
            "transfer-dead-letter" => Part::TransferDeadLetter,
            _ => Part::Main,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Part::Main => "main",
            Part::DeadLetter => "dead-letter",
            Part::TransferDeadLetter => "transfer-dead-letter",
        }
    }

    pub fn title(self) -> &'static str {
        match self {
            Part::Main => "Messages",
            Part::DeadLetter => "Dead letters",
            Part::TransferDeadLetter => "Transfer dead letters",
        }
    }

    pub fn native(self) -> i32 {
        match self {
            Part::Main => SubQueue::Main,
            Part::DeadLetter => SubQueue::DeadLetter,
            Part::TransferDeadLetter => SubQueue::TransferDeadLetter,
        }
        .into()
    }

    pub fn is_dead_letter(self) -> bool {
        self != Part::Main
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_what_it_was_made_of() {
        for place in [
            Place::Queue("a&b=c/d é".into()),
            Place::Topic("t".into()),
            Place::Subscription { topic: "t/u".into(), name: "<s>".into() },
        ] {
            let link = place.link("entity", &[("part", "dead-letter")]);
            let (page, query) = link.split_once('?').expect("a query");
            let fields = Fields::parse(query.as_bytes());
            assert_eq!((page, Part::of(&fields)), ("/console/entity", Part::DeadLetter));
            assert_eq!(Place::of(&fields), Some(place));
        }
    }
}
