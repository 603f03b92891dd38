//! The terminal, while it is drawn on.

use std::io::{self, Stdout, stdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ratatui::Frame;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::event::{self, Event};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use tokio::sync::mpsc;

/// KeyPresses that were pressed and not looked at; with more the reading of them waits.
const KEYS_WAITING_MAX: usize = 64;
/// So often the thread that reads keys looks whether anybody wants them.
const KEY_LOOK: Duration = Duration::from_millis(100);

/// The screen of one run. Dropping it gives the terminal back as it was.
pub struct TopScreen(ratatui::Terminal<CrosstermBackend<Stdout>>);

impl TopScreen {
    pub fn open() -> io::Result<TopScreen> {
        enable_raw_mode()?;
        // From here on it is given back, whatever fails.
        let opened = ratatui::Terminal::new(CrosstermBackend::new(stdout())).map(TopScreen);
        let taken = opened.and_then(|screen| {
            execute!(stdout(), EnterAlternateScreen, Hide)?;
            Ok(screen)
        });
        if taken.is_err() {
            let _ = disable_raw_mode();
        }
        taken
    }

    pub fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.0.draw(draw).map(drop)
    }
}

impl Drop for TopScreen {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing back.
        let _ = disable_raw_mode();
        let _ = execute!(stdout(), LeaveAlternateScreen, Show);
    }
}

/// What is typed, read by a thread of its own, as reading blocks.
pub struct KeyPresses {
    events: mpsc::Receiver<Event>,
    is_over: Arc<AtomicBool>,
}

impl KeyPresses {
    pub fn start() -> KeyPresses {
        let (told, events) = mpsc::channel(KEYS_WAITING_MAX);
        let is_over = Arc::new(AtomicBool::new(false));
        let over = is_over.clone();
        std::thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                let event = match event::poll(KEY_LOOK) {
                    Ok(false) => continue,
                    Ok(true) => event::read(),
                    Err(error) => Err(error),
                };
                // Without a terminal, or without whoever looks, there is nothing to read any more.
                let Ok(event) = event else { return };
                if told.blocking_send(event).is_err() {
                    return;
                }
            }
        });
        KeyPresses { events, is_over }
    }

    /// `None`: nothing more comes.
    pub async fn next(&mut self) -> Option<Event> {
        self.events.recv().await
    }
}

impl Drop for KeyPresses {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}
