//! `mayfly top`: nodes and queues on a screen of their own, kept fresh.

mod figures;
mod screen;
mod view;

use std::io::{IsTerminal, stdin, stdout};
use std::time::Duration;

use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{MissedTickBehavior, interval};

use self::figures::Polling;
use self::screen::{KeyPresses, TopScreen};
use self::view::{Action, TopView};
use crate::connect::Connect;
use crate::input::duration;
use crate::terminal;

const EXAMPLES: &str = "\
Keys:
  s        sort by the next column        r   turn the order
  /        show only names with a text    Esc show all again
  Up Down  PgUp PgDn Home                 scroll
  q        end

Examples:
  mayfly top
  mayfly top --interval 5s --connect 10.0.0.1:5310,10.0.0.2:5310

Without a terminal: mayfly queue list --watch, mayfly cluster status.";

/// How often it is drawn, so that what is late is seen to be.
const DRAW_EVERY: Duration = Duration::from_millis(250);
const INTERVAL_MIN: Duration = Duration::from_millis(200);

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct TopArgs {
    /// How often the cluster is asked
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = every)]
    interval: Duration,
    /// Only entities with this text in their names
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    #[command(flatten)]
    connect: Connect,
}

fn every(text: &str) -> Result<Duration, String> {
    match duration::parse(text)? {
        every if every < INTERVAL_MIN => Err(format!("'{text}' is too often; write 200ms or more")),
        every => Ok(every),
    }
}

pub async fn run(args: TopArgs) -> anyhow::Result<()> {
    if !stdout().is_terminal() || !stdin().is_terminal() {
        let told = "top draws on a terminal, and there is none; 'mayfly queue list --watch' and \
                    'mayfly cluster status' print what it shows";
        return Err(terminal::usage(told));
    }
    // Before the screen is taken, what is wrong is told as by any command.
    let client = args.connect.client()?;
    let mut watching = Polling::start(&client, args.interval).await?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut draws = interval(DRAW_EVERY);
    draws.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut view = TopView::new(args.filter.unwrap_or_default());
    let mut screen = TopScreen::open()?;
    let mut keys = KeyPresses::start();
    loop {
        let figures = watching.figures();
        screen.draw(|frame| view.draw(frame, &figures))?;
        let event = tokio::select! {
            _ = terminate.recv() => return Ok(()),
            _ = draws.tick() => None,
            () = watching.changed() => None,
            event = keys.next() => match event {
                Some(event) => Some(event),
                // The terminal is gone.
                None => return Ok(()),
            },
        };
        if let Some(Event::Key(key)) = event
            && let Some(action) = action(key, view.is_typing())
            && view.act(action)
        {
            return Ok(());
        }
    }
}

/// What a key means; while a filter is typed, letters are its.
fn action(key: KeyEvent, is_typing: bool) -> Option<Action> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char('c') if is_control => Some(Action::End),
        KeyCode::Esc => Some(Action::ShowAll),
        KeyCode::Up => Some(Action::Scroll(-1)),
        KeyCode::Down => Some(Action::Scroll(1)),
        KeyCode::PageUp => Some(Action::Scroll(-10)),
        KeyCode::PageDown => Some(Action::Scroll(10)),
        KeyCode::Home => Some(Action::Scroll(isize::MIN)),
        KeyCode::Enter if is_typing => Some(Action::Typed),
        KeyCode::Backspace if is_typing => Some(Action::Erase),
        KeyCode::Char(letter) if is_typing && !is_control => Some(Action::Letter(letter)),
        KeyCode::Char('q') => Some(Action::End),
        KeyCode::Char('s') => Some(Action::SortNext),
        KeyCode::Char('r') => Some(Action::Turn),
        KeyCode::Char('/') => Some(Action::Type),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_takes_letters_that_are_keys_otherwise() {
        let key = |code| KeyEvent::new(code, KeyModifiers::NONE);
        for (code, is_typing, expected) in [
            (KeyCode::Char('q'), false, Some(Action::End)),
            (KeyCode::Char('q'), true, Some(Action::Letter('q'))),
            (KeyCode::Char('/'), false, Some(Action::Type)),
            (KeyCode::Backspace, false, None),
            (KeyCode::Backspace, true, Some(Action::Erase)),
            (KeyCode::Enter, true, Some(Action::Typed)),
            (KeyCode::Esc, true, Some(Action::ShowAll)),
        ] {
            assert_eq!(action(key(code), is_typing), expected, "{code:?} {is_typing}");
        }
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(action(interrupt, true), Some(Action::End));
    }
}
