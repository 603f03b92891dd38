//! What is shown while the job runs: a live view on a terminal, plain lines elsewhere.

use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use owo_colors::OwoColorize;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::ledger::{Figures, Ledger};
use crate::terminal;

const REDRAW_EVERY: Duration = Duration::from_millis(100);
const LINE_EVERY: Duration = Duration::from_secs(2);

/// The running view.
pub struct View {
    end: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl View {
    pub fn start(ledger: Arc<Ledger>, started: Instant, replay: Duration) -> View {
        let (end, ended) = oneshot::channel();
        let task = match terminal::is_terminal() {
            true => tokio::spawn(live(ledger, started, replay, ended)),
            false => tokio::spawn(lines(ledger, started, ended)),
        };
        View { end, task }
    }

    /// Shows the last state and ends.
    pub async fn end(self) {
        // It may have ended by itself, with whoever read it.
        let _ = self.end.send(());
        let _ = self.task.await;
    }
}

async fn lines(ledger: Arc<Ledger>, started: Instant, mut ended: oneshot::Receiver<()>) {
    let mut last = Instant::now();
    let mut over = false;
    while !over {
        over = tokio::time::timeout(REDRAW_EVERY, &mut ended).await.is_ok();
        let at = started.elapsed().as_secs_f64();
        for note in ledger.take_notes() {
            if terminal::line(format!("{at:5.1} s  {note}")).is_err() {
                return;
            }
        }
        if over || last.elapsed() >= LINE_EVERY {
            last = Instant::now();
            let Figures { accepted, handled, expired, poisoned, .. } = ledger.figures();
            let told = terminal::line(format!(
                "{at:5.1} s  {accepted} accepted, {handled} handled, {expired} expired, \
                 {poisoned} poisoned, {} waiting",
                waiting(&ledger.figures())
            ));
            if told.is_err() {
                return;
            }
        }
    }
}

async fn live(
    ledger: Arc<Ledger>,
    started: Instant,
    replay: Duration,
    mut ended: oneshot::Receiver<()>,
) {
    let view = MultiProgress::new();
    let row = |template: &str| {
        let style = ProgressStyle::with_template(template).expect("the template is a constant");
        view.add(ProgressBar::new(1707).with_style(style.progress_chars("━╸─")))
    };
    let accepted = row("accepted   {wide_bar:.cyan/dim} {pos:>5}  {msg}");
    let handled = row("handled    {wide_bar:.green/dim} {pos:>5}  {msg}");
    let expired = row("expired    {wide_bar:.yellow/dim} {pos:>5}  {msg}");
    let waiting_row = row("waiting    {wide_bar:.blue/dim} {pos:>5}  {msg}");
    let mut over = false;
    while !over {
        over = tokio::time::timeout(REDRAW_EVERY, &mut ended).await.is_ok();
        let at = started.elapsed();
        for note in ledger.take_notes() {
            let told = format!("{:5.1} s  {}", at.as_secs_f64(), note.bold());
            if view.println(told).is_err() {
                return;
            }
        }
        let figures = ledger.figures();
        accepted.set_position(figures.accepted);
        let share = at.as_secs_f64() / replay.as_secs_f64().max(0.001);
        accepted.set_message(match share < 1.0 {
            true => format!("day {:.1} of 7", share * 7.0),
            false => "all sent".to_owned(),
        });
        handled.set_position(figures.handled);
        handled.set_message(format!("{} reminders", figures.reminders_handled));
        expired.set_position(figures.expired);
        expired.set_message(match figures.poisoned {
            0 => format!("poison tried {} times", figures.poison_attempts),
            _ => "poison dead-lettered".to_owned(),
        });
        waiting_row.set_position(waiting(&figures));
    }
    // A failure to clear leaves the bars standing, which is no harm.
    let _ = view.clear();
}

/// Accepted and not yet at its end.
fn waiting(figures: &Figures) -> u64 {
    let ended = figures.handled + figures.expired + figures.poisoned + figures.perhaps;
    figures.accepted.saturating_sub(ended)
}
