//! Random operations on window stores that share a space, against a model.

use crate::Subject;
use crate::expiring::{MINUTE, Times};
use crate::twin::{WindowTwin, steps};

/// Ten thousand puts, deletes, gets and scans of three stores, over hours of event time with late rows.
pub fn against_a_model(subject: &mut dyn Subject) {
    let mut twins = [(1, 90), (2, 5 * MINUTE), (3, 12 * MINUTE)].map(|(n, retention)| WindowTwin::new(n, retention));
    steps(subject, &mut twins, 11, Times::flowing(-60 * MINUTE), 10_000);
}

/// The same with duplicates, beside a store without.
pub fn duplicates_against_a_model(subject: &mut dyn Subject) {
    let mut twins = [WindowTwin::with_duplicates(1, 10 * MINUTE), WindowTwin::new(2, 10 * MINUTE)];
    steps(subject, &mut twins, 12, Times::flowing(1_700_000_000_000), 3_000);
}

/// Times at the ends of `i64` and at the borders of buckets, with retentions of every size.
pub fn times_at_the_edges_against_a_model(subject: &mut dyn Subject) {
    for round in 0..60_u16 {
        let retention = [1, MINUTE, 8 * MINUTE + 1, 1 << 47, i64::MAX][usize::from(round) % 5];
        let twin = if round % 2 == 0 { WindowTwin::new } else { WindowTwin::with_duplicates }(round, retention);
        steps(subject, &mut [twin], 13 + u64::from(round), Times::Edges, 50);
    }
}
