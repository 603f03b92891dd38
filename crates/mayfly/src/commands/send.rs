//! `mayfly send`: text, a file, or JSON lines from standard input with templates from their fields.

use std::io::{BufRead, IsTerminal, Read};
use std::path::PathBuf;
use std::time::Instant as Moment;

use bytes::Bytes;
use client::v1::{Value as Property, value::Kind};
use client::{Message, SenderOptions, Sending};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::connect::ConnectWithin;
use crate::input::template::Template;
use crate::input::{duration, instant::Instant, property};
use crate::terminal;

const EXAMPLES: &str = "\
Examples:
  mayfly send orders 'hello' --ttl 90s
  mayfly send orders --file invoice.pdf --content-type application/pdf -p source=scanner
  date | mayfly send orders -                             standard input is the body
  mayfly send orders 'remind me' --schedule 10m           or --schedule 2026-01-31T12:00:00Z
  mayfly send orders 'load' --count 1000
  mayfly send billing 'paid' --via orders                 stored at orders, which brings it there
  mayfly send alerts --lines --message-id '{id}' --ttl 1h -p 'magnitude:double={mag}' < quakes.jsonl
  mayfly send alerts --lines 'quake {id} near {place}' < quakes.jsonl

With --lines each line of standard input is a JSON object and makes one message. Its body is the
line itself, or the text with its fields filled in; so are the other values. {{ and }} are braces.";

/// Lines read ahead of what is sent.
const READ_AHEAD: usize = 1024;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct SendArgs {
    /// Name of the queue or topic
    queue: String,
    /// The body; "-" reads it from standard input
    text: Option<String>,
    /// Read the body from a file
    #[arg(long, value_name = "PATH", conflicts_with_all = ["text", "lines"])]
    file: Option<PathBuf>,
    /// One message for each JSON line of standard input
    #[arg(long)]
    lines: bool,
    /// Send the same so many times
    #[arg(long, default_value_t = 1, conflicts_with = "lines", value_parser = clap::value_parser!(u64).range(1..))]
    count: u64,
    /// A queue or topic that takes the message and brings it to its destination, exactly once
    #[arg(long, value_name = "QUEUE", conflicts_with_all = ["lines", "count"])]
    via: Option<String>,
    #[command(flatten)]
    fields: Fields,
    #[command(flatten)]
    connect: ConnectWithin,
}

/// Broker and user properties. Without --lines they are taken as they are.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Message")]
struct Fields {
    /// Time to live
    #[arg(long, value_name = "DURATION", value_parser = a_duration)]
    ttl: Option<String>,
    /// When it becomes available: a time, or so long from now
    #[arg(long, value_name = "TIME", value_parser = an_instant)]
    schedule: Option<String>,
    /// Drawn by the broker if absent
    #[arg(long, value_name = "ID")]
    message_id: Option<String>,
    #[arg(long, value_name = "ID")]
    session_id: Option<String>,
    #[arg(long, value_name = "ID")]
    correlation_id: Option<String>,
    #[arg(long, value_name = "TEXT")]
    subject: Option<String>,
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
    /// A user property, "name=value" or "name:type=value"; may be repeated
    #[arg(short, long = "property", value_name = "NAME=VALUE", value_parser = a_property)]
    properties: Vec<String>,
}

/// Checked here where it is no template, so that clap names the flag.
fn a_duration(text: &str) -> Result<String, String> {
    check(text, |text| duration::parse_ms(text).map(drop))
}

fn an_instant(text: &str) -> Result<String, String> {
    check(text, |text| Instant::parse(text).map(drop))
}

fn a_property(text: &str) -> Result<String, String> {
    match text.contains('=') {
        true => check(text, |text| property::parse(text).map(drop)),
        false => property::parse(text).map(|_| text.to_owned()),
    }
}

fn check(text: &str, read: impl Fn(&str) -> Result<(), String>) -> Result<String, String> {
    if !text.contains('{') {
        read(text)?;
    }
    Ok(text.to_owned())
}

pub async fn run(args: SendArgs) -> anyhow::Result<()> {
    let client = args.connect.client()?;
    let now_ms = match args.fields.schedule {
        Some(_) => client.now().await?.now_ms,
        None => 0,
    };
    if let Some(via) = &args.via {
        let message = args.fields.plain(body(&args)?, now_ms)?;
        let numbers = client.send_via(via, &args.queue, vec![message]).await?;
        let number = numbers.first().copied().unwrap_or_default();
        let to = &args.queue;
        return terminal::line(format!(
            "1 message on its way to '{to}', sequence number {number} in '{via}'"
        ));
    }
    let options = SenderOptions::default();
    let sender = client.sender(&args.queue, options);
    // No more can be unanswered; what is answered and not counted yet is waited for.
    let (submitted, answers) = mpsc::channel(options.window);
    let bar = match (args.lines, args.count) {
        (true, _) => terminal::spinner("sending"),
        (false, 1) => indicatif::ProgressBar::hidden(),
        (false, count) => terminal::bar("sending", count),
    };
    let counting = tokio::spawn(count_answers(answers, bar));
    let submitted_all = match args.lines {
        true => send_lines(&args, now_ms, &sender, submitted).await,
        false => send_same(&args, now_ms, &sender, submitted).await,
    };
    let tally = counting.await?;
    sender.close().await;
    submitted_all?;
    tally.told(&args.queue)
}

type Submitted = mpsc::Sender<(u64, Sending)>;

/// Without templates.
fn body(args: &SendArgs) -> anyhow::Result<Bytes> {
    match (&args.text, &args.file) {
        (Some(text), _) if text != "-" => Ok(Bytes::from(text.clone())),
        (Some(_), _) => read_all(std::io::stdin().lock(), "standard input"),
        (None, Some(path)) => {
            let name = path.display().to_string();
            let file = std::fs::File::open(path)
                .map_err(|error| terminal::usage(format!("cannot open '{name}': {error}")))?;
            read_all(file, &name)
        }
        (None, None) => Err(terminal::usage(
            "nothing to send; give a text, --file PATH, - for standard input, or --lines",
        )),
    }
}

async fn send_same(
    args: &SendArgs,
    now_ms: u64,
    sender: &client::Sender,
    submitted: Submitted,
) -> anyhow::Result<()> {
    let message = args.fields.plain(body(args)?, now_ms)?;
    for number in 1..=args.count {
        let sending = sender.submit(vec![message.clone()]).await?;
        submitted.send((number, sending)).await?;
    }
    Ok(())
}

fn read_all(mut from: impl Read, name: &str) -> anyhow::Result<Bytes> {
    let mut body = Vec::new();
    from.read_to_end(&mut body)
        .map_err(|error| terminal::usage(format!("cannot read {name}: {error}")))?;
    Ok(body.into())
}

async fn send_lines(
    args: &SendArgs,
    now_ms: u64,
    sender: &client::Sender,
    submitted: Submitted,
) -> anyhow::Result<()> {
    if std::io::stdin().is_terminal() {
        terminal::note("reading JSON lines from the terminal; end with Ctrl-D");
    }
    let templates = Templates::parse(args)?;
    let (read, mut lines) = mpsc::channel::<std::io::Result<String>>(READ_AHEAD);
    // Reading blocks, so it has a thread; it ends with its input or with whom it reads for.
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            if read.blocking_send(line).is_err() {
                return;
            }
        }
    });
    let mut number = 0;
    while let Some(line) = lines.recv().await {
        number += 1;
        let line = line.map_err(|error| anyhow::anyhow!("line {number}: {error}"))?;
        if line.trim().is_empty() {
            continue;
        }
        let message = templates
            .message(&line, now_ms)
            .map_err(|told| anyhow::anyhow!("line {number}: {told}; the lines before were sent"))?;
        let sending = sender.submit(vec![message]).await?;
        submitted.send((number, sending)).await?;
    }
    Ok(())
}

impl Fields {
    /// Without templates.
    fn plain(&self, body: Bytes, now_ms: u64) -> anyhow::Result<Message> {
        let mut message = Message::new(body);
        if let Some(ttl) = &self.ttl {
            message = message.ttl_ms(duration::parse_ms(ttl).map_err(terminal::usage)?);
        }
        if let Some(at) = &self.schedule {
            let at = Instant::parse(at).map_err(terminal::usage)?;
            message = message.scheduled_at_ms(at.ahead(now_ms));
        }
        for text in &self.properties {
            let (name, value) = property::parse(text).map_err(terminal::usage)?;
            message = message.property(name, value);
        }
        Ok(with_texts(
            message,
            self.message_id.clone(),
            self.session_id.clone(),
            self.correlation_id.clone(),
            self.subject.clone(),
            self.content_type.clone(),
        ))
    }
}

fn with_texts(
    message: Message,
    message_id: Option<String>,
    session_id: Option<String>,
    correlation_id: Option<String>,
    subject: Option<String>,
    content_type: Option<String>,
) -> Message {
    let mut wire = message.into_wire();
    wire.message_id = message_id;
    wire.session_id = session_id;
    wire.correlation_id = correlation_id;
    wire.subject = subject;
    wire.content_type = content_type;
    Message::from(wire)
}

/// All values of the command line, as templates.
struct Templates {
    body: Option<Template>,
    ttl: Option<Template>,
    schedule: Option<Template>,
    message_id: Option<Template>,
    session_id: Option<Template>,
    correlation_id: Option<Template>,
    subject: Option<Template>,
    content_type: Option<Template>,
    /// Whole definitions, `name:type=value`.
    properties: Vec<Template>,
}

impl Templates {
    fn parse(args: &SendArgs) -> anyhow::Result<Templates> {
        let parse = |text: &Option<String>| -> anyhow::Result<Option<Template>> {
            text.as_deref().map(Template::parse).transpose().map_err(terminal::usage)
        };
        let fields = &args.fields;
        let properties = fields.properties.iter().map(|text| Template::parse(text));
        Ok(Templates {
            body: parse(&args.text)?,
            ttl: parse(&fields.ttl)?,
            schedule: parse(&fields.schedule)?,
            message_id: parse(&fields.message_id)?,
            session_id: parse(&fields.session_id)?,
            correlation_id: parse(&fields.correlation_id)?,
            subject: parse(&fields.subject)?,
            content_type: parse(&fields.content_type)?,
            properties: properties.collect::<Result<_, _>>().map_err(terminal::usage)?,
        })
    }

    /// The message one line makes.
    fn message(&self, line: &str, now_ms: u64) -> Result<Message, String> {
        let object: Value =
            serde_json::from_str(line).map_err(|error| format!("no JSON ({error})"))?;
        if !object.is_object() {
            return Err("no JSON object".to_owned());
        }
        let fill = |template: &Option<Template>| {
            template.as_ref().map(|template| template.fill(&object)).transpose()
        };
        let body = fill(&self.body)?.unwrap_or_else(|| line.to_owned());
        let mut message = Message::new(body);
        if let Some(ttl) = fill(&self.ttl)? {
            message = message.ttl_ms(duration::parse_ms(&ttl)?);
        }
        if let Some(at) = fill(&self.schedule)? {
            message = message.scheduled_at_ms(Instant::parse(&at)?.ahead(now_ms));
        }
        for template in &self.properties {
            let (name, value) = property_of(&template.fill(&object)?)?;
            message = message.property(name, value);
        }
        Ok(with_texts(
            message,
            fill(&self.message_id)?,
            fill(&self.session_id)?,
            fill(&self.correlation_id)?,
            fill(&self.subject)?,
            fill(&self.content_type)?,
        ))
    }
}

/// A filled-in property. A field that is null leaves nothing after "=": for any type but text that
/// is the null value.
fn property_of(text: &str) -> Result<(String, Property), String> {
    match text.split_once('=') {
        Some((name, "")) if name.contains(':') && !name.ends_with(":string") => {
            let name = name.rsplit_once(':').map_or(name, |(name, _)| name);
            Ok((name.to_owned(), Property { kind: Some(Kind::Null(true)) }))
        }
        _ => property::parse(text),
    }
}

/// What came of the sends.
#[derive(Default)]
struct SendTally {
    sent: u64,
    numbers: Option<(u64, u64)>,
    failed: u64,
    first_failure: Option<(u64, client::Error)>,
    seconds: f64,
}

async fn count_answers(
    mut answers: mpsc::Receiver<(u64, Sending)>,
    bar: indicatif::ProgressBar,
) -> SendTally {
    let mut tally = SendTally::default();
    let started = Moment::now();
    while let Some((number, sending)) = answers.recv().await {
        match sending.await {
            Ok(numbers) => {
                tally.sent += 1;
                if let Some(stored) = numbers.first().copied() {
                    let first = tally.numbers.map_or(stored, |(first, _)| first);
                    tally.numbers = Some((first, stored));
                }
            }
            Err(error) => {
                tally.failed += 1;
                tally.first_failure.get_or_insert((number, error));
            }
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    tally.seconds = started.elapsed().as_secs_f64();
    tally
}

impl SendTally {
    fn told(self, queue: &str) -> anyhow::Result<()> {
        match (self.sent, self.numbers) {
            (1, Some((number, _))) => {
                terminal::line(format!("1 message sent to '{queue}', sequence number {number}"))?;
            }
            (sent, Some((first, last))) if sent > 1 => terminal::line(format!(
                "{} messages sent to '{queue}', sequence numbers {first} to {last}, {:.1} s",
                terminal::count(sent),
                self.seconds
            ))?,
            _ if self.failed == 0 => terminal::line("nothing sent: the input was empty")?,
            _ => (),
        }
        let Some((number, error)) = self.first_failure else { return Ok(()) };
        let perhaps = matches!(error, client::Error::PerhapsDone(_));
        let error = anyhow::Error::from(error);
        if self.sent + self.failed == 1 {
            let what = if perhaps { "the message may have been sent" } else { "nothing was sent" };
            return Err(error.context(what));
        }
        Err(error.context(format!(
            "{} of {} messages were not acknowledged, the first of them number {number}",
            self.failed,
            self.sent + self.failed
        )))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct SendLine {
        #[command(flatten)]
        args: SendArgs,
    }

    fn templates(flags: &[&str]) -> Templates {
        let line = ["send", "q", "--lines"].iter().chain(flags);
        let command = SendLine::try_parse_from(line).expect("the flags are right");
        Templates::parse(&command.args).expect("the templates are right")
    }

    const LINE: &str = r#"{"id":"us1","mag":5.3,"keep":"90s","depth":null}"#;

    #[test]
    fn a_line_fills_every_value() {
        let templates = templates(&[
            "quake {id}",
            "--message-id={id}",
            "--ttl={keep}",
            "--schedule=1m",
            "--subject=M{mag}",
            "-pmag:double={mag}",
            "-pdepth:double={depth}",
        ]);
        let message = templates.message(LINE, 1000).expect("the line is right").into_wire();
        assert_eq!(message.body, "quake us1");
        assert_eq!(message.message_id.as_deref(), Some("us1"));
        assert_eq!(message.ttl_ms, Some(90_000));
        assert_eq!(message.scheduled_at_ms, Some(61_000));
        assert_eq!(message.subject.as_deref(), Some("M5.3"));
        let kind = |name: &str| message.properties[name].kind.clone();
        assert_eq!(kind("mag"), Some(Kind::DoubleValue(5.3)));
        assert_eq!(kind("depth"), Some(Kind::Null(true)));
    }

    #[test]
    fn without_a_text_the_line_is_the_body() {
        let message = templates(&[]).message(LINE, 0).expect("the line is right").into_wire();
        assert_eq!(message.body, LINE);
    }

    #[test]
    fn a_wrong_line_is_told_so() {
        for (flags, line, told) in [
            (vec!["{id}"], "{}", "the line has no field 'id'"),
            (vec![], "[1]", "no JSON object"),
            (vec!["--ttl={id}"], LINE, "'us1' is no duration; write one like 90s, 1h 30m or PT1M"),
        ] {
            assert_eq!(templates(&flags).message(line, 0), Err(told.to_owned()), "{line}");
        }
        let told = templates(&[]).message("{half", 0).expect_err("it is no JSON");
        assert!(told.starts_with("no JSON ("), "{told}");
    }
}
