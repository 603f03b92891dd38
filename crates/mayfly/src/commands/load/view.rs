//! What a person sees of a load while it runs: figures on a screen of their own, which is gone when the run is over.

use std::io::{self, IsTerminal, Stderr, stderr};
use std::sync::Mutex;

use load::{Glance, Percentiles};
use ratatui::Frame;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Gauge, Paragraph, Row, Sparkline, Table};

/// Looks that the course of rates is drawn of.
const HISTORY_MAX: usize = 240;
/// Errors that are told by name, and notes.
const ERRORS_MAX: usize = 5;
const NOTES_MAX: usize = 3;
/// With fewer columns or rows nothing of use can be drawn.
const COLUMNS_MIN: u16 = 40;
const ROWS_MIN: u16 = 12;

/// The screen of one run. Dropping it gives the terminal back as it was, and says there what was noted meanwhile.
pub(super) struct Screen(Mutex<Drawn>);

struct Drawn {
    terminal: ratatui::Terminal<CrosstermBackend<Stderr>>,
    title: String,
    glance: Glance,
    sent: Vec<u64>,
    delivered: Vec<u64>,
    notes: Vec<String>,
}

impl Screen {
    /// Takes the terminal over. None: nobody looks, or it is no terminal to draw on.
    pub fn open(title: String) -> Option<Screen> {
        let is_dumb = std::env::var("TERM").is_ok_and(|term| term.is_empty() || term == "dumb");
        if !stderr().is_terminal() || is_dumb {
            return None;
        }
        let size = ratatui::crossterm::terminal::size().ok()?;
        if size.0 < COLUMNS_MIN || size.1 < ROWS_MIN {
            return None;
        }
        let terminal = ratatui::Terminal::new(CrosstermBackend::new(stderr())).ok()?;
        execute!(stderr(), EnterAlternateScreen, Hide).ok()?;
        Some(Screen(Mutex::new(Drawn {
            terminal,
            title,
            glance: Glance { phase: "opening links", ..Glance::default() },
            sent: Vec::new(),
            delivered: Vec::new(),
            notes: Vec::new(),
        })))
    }

    fn state(&self) -> std::sync::MutexGuard<'_, Drawn> {
        self.0.lock().unwrap_or_else(|poison| poison.into_inner())
    }

    /// Draws the next look.
    pub fn show(&self, glance: &Glance) {
        let mut state = self.state();
        state.glance = glance.clone();
        let rates = [glance.sent, glance.delivered];
        let Drawn { sent, delivered, .. } = &mut *state;
        for (history, rate) in [sent, delivered].into_iter().zip(rates) {
            if history.len() >= HISTORY_MAX {
                history.remove(0);
            }
            history.push(rate as u64);
        }
        state.draw();
    }

    /// Something a person should know.
    pub fn note(&self, told: &str) {
        let mut state = self.state();
        state.notes.push(told.to_owned());
        state.draw();
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing back.
        let _ = execute!(stderr(), LeaveAlternateScreen, Show);
        for note in &self.state().notes {
            crate::terminal::note(note);
        }
    }
}

impl Drawn {
    fn draw(&mut self) {
        let Drawn { terminal, title, glance, sent, delivered, notes } = self;
        // What cannot be drawn now is drawn at the next look.
        let drawn: io::Result<_> = terminal.draw(|frame| {
            draw(frame, title, glance, (sent, delivered), notes);
        });
        drop(drawn);
    }
}

fn draw(
    frame: &mut Frame<'_>,
    title: &str,
    glance: &Glance,
    (sent, delivered): (&[u64], &[u64]),
    notes: &[String],
) {
    let rows = [
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(3),
        Constraint::Length(7),
        Constraint::Min(1),
    ];
    let [head, phase, _, rates, latency, rest] = Layout::vertical(rows).areas(frame.area());
    frame.render_widget(Line::from(title).bold(), head);
    let left = glance.left.as_secs();
    let label = format!(
        "{} {:.0} %, {}:{:02} left",
        glance.phase,
        glance.share * 100.0,
        left / 60,
        left % 60
    );
    let gauge = Gauge::default().ratio(glance.share.clamp(0.0, 1.0)).label(label);
    frame.render_widget(gauge.gauge_style(Style::new().fg(Color::Cyan)), phase);
    draw_rates(frame, rates, glance, (sent, delivered));
    draw_latency(frame, latency, glance);
    draw_rest(frame, rest, glance, notes);
}

fn draw_rates(
    frame: &mut Frame<'_>,
    area: Rect,
    glance: &Glance,
    (sent, delivered): (&[u64], &[u64]),
) {
    let lines = Layout::vertical([Constraint::Length(1); 3]).split(area);
    let rates = [
        ("sent/s", glance.sent, Some(sent)),
        ("delivered/s", glance.delivered, Some(delivered)),
        ("completed/s", glance.completed, None),
    ];
    for (line, (name, rate, history)) in lines.iter().zip(rates) {
        let columns = [Constraint::Length(26), Constraint::Min(1)];
        let [text, course] = Layout::horizontal(columns).areas(*line);
        frame.render_widget(Line::from(format!("{name:<12}{rate:>12.0}")), text);
        if let Some(history) = history {
            let room = usize::from(course.width);
            let shown = &history[history.len().saturating_sub(room)..];
            frame.render_widget(Sparkline::default().data(shown).style(Color::Cyan), course);
        }
    }
}

fn draw_latency(frame: &mut Frame<'_>, area: Rect, glance: &Glance) {
    let header = Row::new(["ms", "p50", "p99", "p99.9", "max"]).bold();
    let row = |(name, of): (&String, &Percentiles)| {
        let cell = |ms: f64| format!("{ms:.1}");
        Row::new([name.replace('_', " "), cell(of.p50), cell(of.p99), cell(of.p99_9), cell(of.max)])
    };
    let widths = [
        Constraint::Length(12),
        Constraint::Length(10),
        Constraint::Length(10),
        Constraint::Length(10),
        Constraint::Length(10),
    ];
    let table = Table::new(glance.latency.iter().map(row), widths).header(header);
    frame.render_widget(table, area);
}

fn draw_rest(frame: &mut Frame<'_>, area: Rect, glance: &Glance, notes: &[String]) {
    let generator = &glance.generator;
    let mut lines = vec![
        Line::from(match glance.missing {
            Some(missing) => format!("missing     {missing}"),
            None => format!("backlog     {}", glance.backlog),
        }),
        Line::from(format!("generator   {:.2} of {} cores", generator.cores_used, generator.cores)),
    ];
    if generator.is_limit() {
        lines.push(
            Line::from(
                "WARNING     the generator may be the limit: nearly all of its cores are in use",
            )
            .red(),
        );
    }
    let errors: u64 = glance.errors.values().sum();
    lines.push(match errors {
        0 => Line::from("errors      none"),
        _ => Line::from(format!("errors      {errors}")).red(),
    });
    let mut most: Vec<(&String, &u64)> = glance.errors.iter().collect();
    most.sort_by(|one, other| other.1.cmp(one.1));
    for (name, count) in most.into_iter().take(ERRORS_MAX) {
        lines.push(Line::from(format!("  {count:>8}  {name}")));
    }
    for note in notes.iter().rev().take(NOTES_MAX).rev() {
        lines.push(Line::from(note.as_str()).yellow());
    }
    lines.push(Line::from("Ctrl-C ends the run").dim());
    frame.render_widget(Paragraph::new(lines), area);
}
