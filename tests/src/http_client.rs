//! One HTTP request on a connection of its own, byte by byte.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::Context;

/// Longer than a request may wait for a message.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

pub struct HttpAnswer {
    pub status: u16,
    /// Names in lower case, values as they came.
    pub head: String,
    pub body: String,
}

impl HttpAnswer {
    /// A header's value, as it came.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(found, _)| *found == name).map(|(_, value)| value)
    }
}

/// `request`: method and path. `headers`: lines, each with its end.
pub fn ask(address: &str, request: &str, headers: &str, body: &str) -> anyhow::Result<HttpAnswer> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(ANSWER_WITHIN))?;
    let length = body.len();
    write!(
        stream,
        "{request} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    )?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (head, body) = text.split_once("\r\n\r\n").context("no end of the headers")?;
    let status = head.split(' ').nth(1).context("no status")?.parse()?;
    let head = head.lines().map(lower_name).collect::<Vec<_>>().join("\n");
    Ok(HttpAnswer { status, head, body: body.to_owned() })
}

fn lower_name(line: &str) -> String {
    match line.split_once(": ") {
        Some((name, value)) => format!("{}: {value}", name.to_lowercase()),
        None => line.to_owned(),
    }
}
