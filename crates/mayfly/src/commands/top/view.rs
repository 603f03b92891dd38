//! What is drawn of the figures, in which order, and what keys change of that.

use std::cmp::Ordering;
use std::time::Duration;

use client::v1;
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Row, Table};
use tokio::time::Instant;

use super::figures::{EntityFigures, LastTold, TopFigures};
use crate::commands::cluster;
use crate::input::duration;
use crate::terminal;

/// Nodes that are shown, of a cluster with more the first.
const NODES_SHOWN_MAX: usize = 9;
/// Of what is wrong, so many lines.
const WRONG_SHOWN_MAX: usize = 3;
/// What is so much older than it should be is said to be.
const LATE_BY: Duration = Duration::from_secs(2);
const UNKNOWN: &str = "?";

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    End,
    SortNext,
    Turn,
    /// A filter is typed from here on.
    Type,
    Letter(char),
    Erase,
    Typed,
    ShowAll,
    /// By so many lines.
    Scroll(isize),
}

/// By what entities are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SortKey {
    Came,
    Went,
    Active,
    Scheduled,
    Dead,
    Name,
}

impl SortKey {
    const ALL: [SortKey; 6] = [
        SortKey::Came,
        SortKey::Went,
        SortKey::Active,
        SortKey::Scheduled,
        SortKey::Dead,
        SortKey::Name,
    ];

    fn name(self) -> &'static str {
        match self {
            SortKey::Came => "in/s",
            SortKey::Went => "out/s",
            SortKey::Active => "active",
            SortKey::Scheduled => "scheduled",
            SortKey::Dead => "dead",
            SortKey::Name => "name",
        }
    }

    /// The most first; names from the beginning of the alphabet.
    fn compare(self, one: &EntityFigures, other: &EntityFigures) -> Ordering {
        let rates = |of: fn(&EntityFigures) -> Option<f64>| {
            of(other).unwrap_or(-1.0).total_cmp(&of(one).unwrap_or(-1.0))
        };
        let first = match self {
            SortKey::Came => rates(|entity| entity.came),
            SortKey::Went => rates(|entity| entity.went),
            SortKey::Active => other.active.cmp(&one.active),
            SortKey::Scheduled => other.scheduled.cmp(&one.scheduled),
            SortKey::Dead => other.dead.cmp(&one.dead),
            SortKey::Name => Ordering::Equal,
        };
        // So that lines that are even do not change places.
        first.then_with(|| one.name.cmp(&other.name))
    }
}

/// How a person has it shown.
pub struct TopView {
    sort: SortKey,
    is_turned: bool,
    filter: String,
    is_typing: bool,
    scrolled: usize,
}

impl TopView {
    pub fn new(filter: String) -> TopView {
        TopView { sort: SortKey::Came, is_turned: false, filter, is_typing: false, scrolled: 0 }
    }

    pub fn is_typing(&self) -> bool {
        self.is_typing
    }

    /// Whether it is the end.
    pub fn act(&mut self, action: Action) -> bool {
        match action {
            Action::End => return true,
            Action::SortNext => {
                let place = SortKey::ALL.iter().position(|key| *key == self.sort).unwrap_or(0);
                self.sort = SortKey::ALL[(place + 1) % SortKey::ALL.len()];
            }
            Action::Turn => self.is_turned = !self.is_turned,
            Action::Type => self.is_typing = true,
            Action::Letter(letter) => self.filter.push(letter),
            Action::Erase => drop(self.filter.pop()),
            Action::Typed => self.is_typing = false,
            Action::ShowAll => {
                self.filter.clear();
                self.is_typing = false;
            }
            Action::Scroll(by) => self.scrolled = self.scrolled.saturating_add_signed(by),
        }
        if !matches!(action, Action::Scroll(_)) {
            self.scrolled = 0;
        }
        false
    }

    pub fn draw(&mut self, frame: &mut Frame<'_>, figures: &TopFigures) {
        let status = figures.status.value.as_ref();
        let wrong = status.map_or(0, |status| status.wrong.len().clamp(1, WRONG_SHOWN_MAX));
        let nodes = status.map_or(0, |status| status.nodes.len().min(NODES_SHOWN_MAX));
        let rows = [
            Constraint::Length(1),
            Constraint::Length(wrong as u16),
            Constraint::Length(nodes as u16 + 1),
            Constraint::Length(1),
            Constraint::Min(2),
            Constraint::Length(1),
        ];
        let [head, troubles, of_nodes, between, of_entities, foot] =
            Layout::vertical(rows).areas(frame.area());
        draw_head(frame, head, figures);
        if let Some(status) = status {
            draw_wrong(frame, troubles, status);
            draw_nodes(frame, of_nodes, status);
        }
        self.draw_entities_head(frame, between, figures);
        self.draw_entities(frame, of_entities, figures);
        self.draw_foot(frame, foot);
    }

    /// In their order, without those that the filter leaves out.
    fn sorted<'a>(&self, all: &'a [EntityFigures]) -> Vec<&'a EntityFigures> {
        let wanted = self.filter.to_lowercase();
        let fits = |entity: &&EntityFigures| entity.name.to_lowercase().contains(&wanted);
        let mut sorted: Vec<&EntityFigures> = all.iter().filter(fits).collect();
        sorted.sort_by(|one, other| self.sort.compare(one, other));
        if self.is_turned {
            sorted.reverse();
        }
        sorted
    }

    fn draw_entities_head(&self, frame: &mut Frame<'_>, area: Rect, figures: &TopFigures) {
        let left_out = figures.entities.value.as_ref().map_or(0, |found| found.topics_left_out);
        let mut told = match &figures.entities.value {
            None => "asking for queues".to_owned(),
            Some(found) => format!("queues and subscriptions: {}", found.all.len()),
        };
        if left_out > 0 {
            told += &format!(", without those of {left_out} topics");
        }
        let late = late(&figures.entities, figures.now, figures.interval);
        let line = match late {
            Some(late) => Line::from(format!("{told}; {late}")).red(),
            None => Line::from(told).dim(),
        };
        frame.render_widget(line, area);
    }

    fn draw_entities(&mut self, frame: &mut Frame<'_>, area: Rect, figures: &TopFigures) {
        let Some(found) = &figures.entities.value else { return };
        let sorted = self.sorted(&found.all);
        let room = usize::from(area.height.saturating_sub(1)).max(1);
        self.scrolled = self.scrolled.min(sorted.len().saturating_sub(room));
        let head = |key: SortKey| {
            let is_sorted = key == self.sort;
            let mark = match (is_sorted, self.is_turned) {
                (false, _) => "",
                (true, false) => "▼",
                (true, true) => "▲",
            };
            let line = Line::from(format!("{}{mark}", key.name())).alignment(match key {
                SortKey::Name => Alignment::Left,
                _ => Alignment::Right,
            });
            if is_sorted { line.style(Modifier::UNDERLINED) } else { line }
        };
        let mut header: Vec<Line<'_>> = vec![head(SortKey::Name)];
        header.extend(SortKey::ALL.into_iter().filter(|key| *key != SortKey::Name).map(head));
        header.push(right("leader"));
        let rows = sorted.iter().skip(self.scrolled).take(room).map(|entity| {
            let leader =
                if entity.leader == 0 { "none".to_owned() } else { entity.leader.to_string() };
            Row::new([
                Line::from(entity.name.clone()),
                right(rate(entity.came)),
                right(rate(entity.went)),
                right(terminal::count(entity.active)),
                right(terminal::count(entity.scheduled)),
                right(terminal::count(entity.dead)),
                right(leader),
            ])
        });
        let widths = [
            Constraint::Fill(1),
            Constraint::Length(8),
            Constraint::Length(8),
            Constraint::Length(11),
            Constraint::Length(11),
            Constraint::Length(9),
            Constraint::Length(7),
        ];
        let table = Table::new(rows, widths).header(Row::new(header).bold());
        frame.render_widget(table, area);
    }

    fn draw_foot(&self, frame: &mut Frame<'_>, area: Rect) {
        let line = match (self.is_typing, self.filter.as_str()) {
            (true, filter) => Line::from(format!("/{filter}_  Enter keeps it, Esc shows all")),
            (false, "") => Line::from("q end  s sort  r turn  / filter  ↑↓ scroll").dim(),
            (false, filter) => Line::from(format!(
                "only '{filter}', Esc shows all  q end  s sort  r turn  / filter"
            )),
        };
        frame.render_widget(line, area);
    }
}

fn right(text: impl Into<String>) -> Line<'static> {
    Line::from(text.into()).alignment(Alignment::Right)
}

fn rate(per_second: Option<f64>) -> String {
    match per_second {
        None => UNKNOWN.to_owned(),
        Some(rate) if rate < 10.0 => format!("{rate:.1}"),
        Some(rate) => terminal::count(rate.round() as u64),
    }
}

/// That something is older than it should be, and why.
fn late<T>(known: &LastTold<T>, now: Instant, interval: Duration) -> Option<String> {
    let age = now.saturating_duration_since(known.at);
    let is_late = age > interval + LATE_BY || known.error.is_some();
    is_late.then(|| {
        let why = known.error.as_deref().unwrap_or("no answer yet");
        format!("as of {} s ago: {why}", age.as_secs())
    })
}

fn draw_head(frame: &mut Frame<'_>, area: Rect, figures: &TopFigures) {
    let Some(status) = &figures.status.value else { return };
    let id: String = status.cluster_id.chars().take(8).collect();
    let title = format!("cluster {id}, answered by node {}", status.answered_by);
    match late(&figures.status, figures.now, figures.interval) {
        Some(late) => {
            frame.render_widget(Line::from(format!("{title}; {late}")).red().bold(), area)
        }
        None => frame.render_widget(Line::from(title).bold(), area),
    }
}

fn draw_wrong(frame: &mut Frame<'_>, area: Rect, status: &v1::StatusResponse) {
    let lines: Vec<Line<'_>> = match status.wrong.as_slice() {
        [] => vec![Line::from("nothing is wrong").green()],
        wrong => {
            let shown =
                wrong.iter().take(WRONG_SHOWN_MAX).map(|line| Line::from(line.as_str()).red());
            shown.collect()
        }
    };
    frame.render_widget(Paragraph::new(lines), area);
}

fn draw_nodes(frame: &mut Frame<'_>, area: Rect, status: &v1::StatusResponse) {
    let header = ["node", "state", "version", "up", "leads", "disk free", "clock", "connections"];
    let header = header.into_iter().enumerate().map(|(place, name)| match place {
        1 | 2 => Line::from(name),
        _ => right(name),
    });
    let unknown = || UNKNOWN.to_owned();
    let rows = status.nodes.iter().take(NODES_SHOWN_MAX).map(|node| {
        let state = match node.reachable {
            true => cluster::role_name(node.role()),
            false => "not reachable",
        };
        // What a node leads that does not answer is what others say.
        let row = Row::new([
            right(node.id.to_string()),
            Line::from(state),
            Line::from(node.version.clone().unwrap_or_else(unknown)),
            right(node.up_ms.map_or_else(unknown, duration::show_about_ms)),
            right(node.groups_led.to_string()),
            right(node.disk.as_ref().map_or_else(unknown, |disk| terminal::bytes(disk.free_bytes))),
            right(node.clock_offset_ms.map_or_else(unknown, duration::show_offset_ms)),
            right(node.connections.map_or_else(unknown, terminal::count)),
        ]);
        if node.reachable { row } else { row.style(Style::new().red()) }
    });
    let widths = [
        Constraint::Length(4),
        Constraint::Length(13),
        Constraint::Length(9),
        Constraint::Length(7),
        Constraint::Length(5),
        Constraint::Length(10),
        Constraint::Length(9),
        Constraint::Length(11),
    ];
    let table = Table::new(rows, widths).header(Row::new(header).bold());
    frame.render_widget(table, area);
}

#[cfg(test)]
mod tests;
