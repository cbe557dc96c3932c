//! What a person sees, letter by letter.

use std::sync::{Arc, Mutex};

use super::*;
use crate::flight::Totals;

/// A place to write to that can be looked at.
#[derive(Clone, Default)]
struct Paper(Arc<Mutex<Vec<u8>>>);

impl Paper {
    fn take(&self) -> String {
        String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).unwrap()
    }
}

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn totals(flights: &[(&str, u64)]) -> TotalsByCarrier {
    flights
        .iter()
        .map(|(carrier, flights)| ((*carrier).to_owned(), Totals { flights: *flights, ..Totals::default() }))
        .collect()
}

fn snapshot(millis: u64, processed: u64, totals: &TotalsByCarrier) -> Snapshot<'_> {
    Snapshot {
        now: Duration::from_millis(millis),
        state: "running".to_owned(),
        replayed: Some(900),
        processed,
        lag: 42,
        restoring: Vec::new(),
        totals,
        is_last: false,
    }
}

#[test]
fn plain_lines_tell_everything_once_a_second() {
    let paper = Paper::default();
    let mut view = View::new(Style::Plain, Box::new(paper.clone()));
    let none = TotalsByCarrier::new();
    assert!(view.is_due(Duration::from_millis(5_000)));
    view.draw(&snapshot(5_000, 0, &none));
    assert_eq!(paper.take(), "0.0 s running replayed=900 processed=0 lag=42 rate=0/s\n");

    assert!(!view.is_due(Duration::from_millis(5_999)));
    assert!(view.is_due(Duration::from_millis(6_000)));
    let some = totals(&[("AA", 10), ("UA", 30), ("B6", 20)]);
    view.draw(&snapshot(6_500, 300, &some));
    assert_eq!(paper.take(), "1.5 s running replayed=900 processed=300 lag=42 rate=200/s top=UA:30,B6:20,AA:10\n");
}

#[test]
fn restoring_tasks_show_progress_or_what_they_wait_for() {
    let paper = Paper::default();
    let mut view = View::new(Style::Plain, Box::new(paper.clone()));
    let none = TotalsByCarrier::new();
    let task = |n: u64, reason: Option<&str>| Restoring {
        task: format!("1_{n}"),
        remaining: 250,
        waiting: reason.map(str::to_owned),
    };
    let mut tasks = vec![task(0, None), task(1, Some("an open transaction"))];
    view.draw(&Snapshot { replayed: None, restoring: tasks.clone(), ..snapshot(0, 0, &none) });
    assert_eq!(
        paper.take(),
        "0.0 s running processed=0 lag=42 rate=0/s restoring=[1_0 250 to go, 1_1: an open transaction]\n"
    );
    tasks.extend((2..7).map(|n| task(n, None)));
    view.draw(&Snapshot { restoring: tasks, ..snapshot(0, 0, &none) });
    assert!(paper.take().ends_with(", 1_3 250 to go and 3 more]\n"));
}

#[test]
fn the_live_view_is_redrawn_in_place_and_narrow() {
    let paper = Paper::default();
    let mut view = View::new(Style::Live, Box::new(paper.clone()));
    let some = totals(&[("AA", 1), ("UA", 3), ("B6", 2), ("DL", 4), ("EV", 5), ("HA", 1)]);
    view.draw(&snapshot(0, 100, &some));
    let first = paper.take();
    assert!(!first.contains('\x1b'), "{first}");
    let lines = first.lines().collect::<Vec<_>>();
    assert_eq!(lines[0], "flights  running  0.0 s");
    assert_eq!(lines[1], "  processed 100  lag 42  0/s  replayed 900");
    assert_eq!(lines[2], format!("  EV         5  {}", "█".repeat(50)));
    assert_eq!(lines.len(), 2 + 5, "the top five");
    assert!(lines.iter().all(|line| line.chars().count() < 80), "{first}");

    let waits = Restoring { task: "1_0".to_owned(), remaining: 0, waiting: Some("patience ".repeat(20)) };
    view.draw(&Snapshot { restoring: vec![waits], ..snapshot(250, 200, &some) });
    let second = paper.take();
    let second = second.strip_prefix("\x1b[7A\x1b[J").expect("it goes up over what it drew");
    assert!(second.contains("patience") && second.lines().all(|line| line.chars().count() < 80), "{second}");
    view.note("by the way");
    assert_eq!(paper.take(), "by the way\n");
    view.draw(&snapshot(500, 200, &some));
    assert!(!paper.take().contains('\x1b'), "and does not go over the note");
}
