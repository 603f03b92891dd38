//! What stands on the screen for given figures.

use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::super::figures::EntityTable;
use super::*;

fn node(id: u64) -> v1::NodeStatus {
    v1::NodeStatus {
        id,
        reachable: true,
        role: v1::NodeRole::Active.into(),
        groups_led: 6,
        version: Some("0.2.0".to_owned()),
        up_ms: Some(3 * 3_600_000),
        disk: Some(v1::DiskStatus { free_bytes: 5 << 30, ..Default::default() }),
        clock_offset_ms: Some(-2),
        connections: Some(1_234),
        ..Default::default()
    }
}

fn away(id: u64) -> v1::NodeStatus {
    v1::NodeStatus { id, ..Default::default() }
}

fn entity(name: &str, came: Option<f64>, active: u64) -> EntityFigures {
    EntityFigures {
        name: name.to_owned(),
        came,
        went: came,
        active,
        leader: 1,
        ..Default::default()
    }
}

fn figures(all: Vec<EntityFigures>) -> TopFigures {
    let status = v1::StatusResponse {
        cluster_id: "0123456789abcdef".to_owned(),
        answered_by: 2,
        nodes: vec![node(1), away(2), node(3)],
        wrong: vec!["node 2 is not reachable".to_owned()],
        ..Default::default()
    };
    let now = Instant::now();
    TopFigures {
        status: LastTold { value: Some(status), at: now, error: None },
        entities: LastTold {
            value: Some(EntityTable { all, topics_left_out: 0 }),
            at: now,
            error: None,
        },
        now,
        interval: Duration::from_secs(1),
    }
}

/// The lines of a screen of that size, without what is empty at their ends.
fn drawn(view: &mut TopView, figures: &TopFigures, columns: u16, rows: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).expect("a screen");
    terminal.draw(|frame| view.draw(frame, figures)).expect("it is drawn");
    let buffer = terminal.backend().buffer().clone();
    let lines = buffer.content().chunks(columns.into());
    lines
        .map(|cells| {
            let line: String = cells.iter().map(|cell| cell.symbol()).collect();
            line.trim_end().to_owned()
        })
        .collect()
}

fn names(lines: &[String]) -> Vec<&str> {
    let table = lines.iter().skip_while(|line| !line.starts_with("name"));
    let rows =
        table.skip(1).take_while(|line| !line.starts_with("q end") && !line.starts_with("only"));
    rows.filter_map(|line| line.split_whitespace().next()).collect()
}

#[test]
fn all_that_there_is_fits_on_eighty_columns() {
    let all = vec![entity("orders", Some(12_345.0), 1_234_567), entity("new", None, 0)];
    let lines = drawn(&mut TopView::new(String::new()), &figures(all), 80, 24);
    assert_eq!(lines[0], "cluster 01234567, answered by node 2");
    assert_eq!(lines[1], "node 2 is not reachable");
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(
        words(&lines[2]),
        ["node", "state", "version", "up", "leads", "disk", "free", "clock", "connections"]
    );
    assert_eq!(words(&lines[3])[..4], ["1", "active", "0.2.0", "3h"]);
    assert_eq!(words(&lines[3])[4..], ["6", "5.0", "GiB", "-2ms", "1,234"]);
    // Nothing is told of a node that is away but that it is.
    assert_eq!(words(&lines[4]), ["2", "not", "reachable", "?", "?", "0", "?", "?", "?"]);
    assert_eq!(lines[6], "queues and subscriptions: 2");
    assert_eq!(
        words(&lines[7]),
        ["name", "in/s▼", "out/s", "active", "scheduled", "dead", "leader"]
    );
    assert_eq!(words(&lines[8]), ["orders", "12,345", "12,345", "1,234,567", "0", "0", "1"]);
    assert_eq!(words(&lines[9]), ["new", "?", "?", "0", "0", "0", "1"]);
    assert!(lines[23].starts_with("q end"), "{lines:#?}");
}

#[test]
fn keys_sort_filter_and_scroll() {
    let all = vec![entity("a", Some(1.0), 7), entity("B", Some(3.0), 9), entity("c", Some(2.0), 8)];
    let figures = figures(all);
    let mut view = TopView::new(String::new());
    let mut shown = |actions: &[Action]| {
        for action in actions {
            assert!(!view.act(*action), "{action:?}");
        }
        let lines = drawn(&mut view, &figures, 80, 24);
        names(&lines).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(shown(&[]), ["B", "c", "a"], "by what comes in");
    assert_eq!(shown(&[Action::Turn]), ["a", "c", "B"]);
    assert_eq!(shown(&[Action::Turn, Action::SortNext, Action::SortNext]), ["B", "c", "a"]);
    assert_eq!(shown(&[Action::Type, Action::Letter('b'), Action::Typed]), ["B"]);
    assert_eq!(shown(&[Action::ShowAll]), ["B", "c", "a"]);
    assert_eq!(shown(&[Action::SortNext, Action::SortNext, Action::SortNext]), ["B", "a", "c"]);
    assert!(view.act(Action::End));
}

#[test]
fn a_long_list_scrolls_as_far_as_its_end() {
    let all = (0..100).map(|number| entity(&format!("q{number:02}"), Some(0.0), 0)).collect();
    let figures = figures(all);
    let mut view = TopView::new(String::new());
    let first = |view: &mut TopView| names(&drawn(view, &figures, 80, 24))[0].to_owned();
    assert_eq!(first(&mut view), "q00");
    view.act(Action::Scroll(10));
    assert_eq!(first(&mut view), "q10");
    view.act(Action::Scroll(1_000));
    let lines = drawn(&mut view, &figures, 80, 24);
    assert_eq!(names(&lines).last(), Some(&"q99"));
    view.act(Action::Scroll(isize::MIN));
    assert_eq!(first(&mut view), "q00");
}

#[test]
fn what_is_late_or_unknown_is_said_to_be() {
    let mut figures = figures(vec![entity("orders", Some(1.0), 1)]);
    figures.now += Duration::from_secs(9);
    figures.entities.error = Some("no leader".to_owned());
    let lines = drawn(&mut TopView::new(String::new()), &figures, 80, 24);
    assert!(lines[0].ends_with("as of 9 s ago: no answer yet"), "{lines:#?}");
    assert_eq!(lines[6], "queues and subscriptions: 1; as of 9 s ago: no leader");
    assert_eq!(names(&lines), ["orders"], "what was known last is still shown");

    figures.entities = LastTold { value: None, at: figures.now, error: Some("refused".to_owned()) };
    let lines = drawn(&mut TopView::new(String::new()), &figures, 80, 24);
    assert_eq!(lines[6], "asking for queues; as of 0 s ago: refused");
}

/// Nothing panics where there is hardly any room.
#[test]
fn the_smallest_screens_are_drawn_on() {
    let figures = figures(vec![entity("orders", Some(1.0), 1)]);
    for (columns, rows) in [(1, 1), (10, 3), (40, 8), (200, 60)] {
        drawn(&mut TopView::new("x".to_owned()), &figures, columns, rows);
    }
}
