//! A value of a document, whose members keep their order: names come first.

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

/// A value as both TOML and JSON have them.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    Bool(bool),
    Integer(i64),
    /// Finite.
    Float(f64),
    Text(String),
    List(Vec<Node>),
    Object(Vec<(String, Node)>),
}

/// Lists whose items are tables of their own in TOML.
const TABLES: [&str; 4] = ["queues", "topics", "subscriptions", "rules"];

impl Node {
    pub fn text(text: impl Into<String>) -> Node {
        Node::Text(text.into())
    }

    /// In one line, as TOML has it.
    pub fn inline(&self) -> String {
        match self {
            Node::Bool(flag) => flag.to_string(),
            Node::Integer(number) => number.to_string(),
            Node::Float(number) => toml::Value::Float(*number).to_string(),
            Node::Text(text) => quoted(text),
            Node::List(nodes) => {
                let nodes: Vec<String> = nodes.iter().map(Node::inline).collect();
                format!("[{}]", nodes.join(", "))
            }
            Node::Object(members) => {
                let members: Vec<String> = members
                    .iter()
                    .map(|(name, node)| format!("{} = {}", key(name), node.inline()))
                    .collect();
                match members.is_empty() {
                    true => "{}".to_owned(),
                    false => format!("{{ {} }}", members.join(", ")),
                }
            }
        }
    }

    /// A document in TOML.
    pub fn to_toml(&self) -> String {
        let mut out = String::new();
        if let Node::Object(members) = self {
            put_table(members, "", &mut out);
        }
        out
    }
}

fn put_table(members: &[(String, Node)], path: &str, out: &mut String) {
    let is_table = |name: &str, node: &Node| {
        TABLES.contains(&name) && matches!(node, Node::List(items) if !items.is_empty())
    };
    for (name, node) in members.iter().filter(|(name, node)| !is_table(name, node)) {
        out.push_str(&format!("{} = {}\n", key(name), node.inline()));
    }
    for (name, node) in members.iter().filter(|(name, node)| is_table(name, node)) {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let Node::List(items) = node else { continue };
        for item in items {
            let Node::Object(members) = item else { continue };
            out.push_str(&format!("\n[[{path}]]\n"));
            put_table(members, &path, out);
        }
    }
}

/// Bare where it can be.
fn key(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    match !name.is_empty() && name.chars().all(is_bare) {
        true => name.to_owned(),
        false => quoted(name),
    }
}

/// A string of one line: TOML's are JSON's, but for one character that it wants escaped.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007F")
}

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        match self {
            Node::Bool(flag) => out.serialize_bool(*flag),
            Node::Integer(number) => out.serialize_i64(*number),
            Node::Float(number) => out.serialize_f64(*number),
            Node::Text(text) => out.serialize_str(text),
            Node::List(nodes) => {
                let mut list = out.serialize_seq(Some(nodes.len()))?;
                nodes.iter().try_for_each(|node| list.serialize_element(node))?;
                list.end()
            }
            Node::Object(members) => {
                let mut map = out.serialize_map(Some(members.len()))?;
                members.iter().try_for_each(|(name, node)| map.serialize_entry(name, node))?;
                map.end()
            }
        }
    }
}
