//! Rows that nodes have held back and that have become due: final results, suppressed updates.

use millpond_topology::{NodeIndex, Round};

use super::Task;
use super::process::{Processing, port, run};
use super::settle::Settled;
use crate::error::Result;
use crate::exec::TaskPort;

impl Task {
    /// Has all nodes let through what has become due, a row at a time, each atomic like a record: one that fails and is skipped is
    /// passed over, and the others are forwarded. What a row makes due further down goes before the next row.
    pub(super) fn let_through(&mut self, cx: &mut Processing<'_>) -> Result {
        let mut due = Vec::new();
        self.take_due(&mut due);
        while let Some((node, mut round)) = due.pop() {
            self.letting_through = true;
            if self.let_one_through(cx, node, &mut round)? {
                (round.had, round.pass_over) = (round.had.saturating_add(1), false);
                due.push((node, round));
            }
            self.take_due(&mut due);
        }
        self.letting_through = false;
        Ok(())
    }

    /// Adds the nodes that have become due, the first one last.
    #[inline]
    fn take_due(&mut self, due: &mut Vec<(NodeIndex, Round)>) {
        if let Some(graph) = self.graph.as_mut().filter(|graph| graph.has_due()) {
            due.extend(graph.take_due().into_iter().rev().map(|node| (node, Round::default())));
        }
    }

    /// Answers whether there may be another row.
    fn let_one_through(&mut self, cx: &mut Processing<'_>, node: NodeIndex, round: &mut Round) -> Result<bool> {
        let mut attempt = 1;
        loop {
            let mut has_more = false;
            let mut port = port!(self, cx.wall, self.stream_time, None);
            let outcome = run(self.graph.as_mut(), self.id, |graph| {
                has_more = graph.let_through(&mut port, node, round)?;
                Ok(())
            });
            self.dirty = true;
            let is_done = outcome.is_ok();
            match self.settle_held(cx, outcome, attempt)? {
                Settled::Over if is_done => return Ok(has_more),
                Settled::Over => round.pass_over = true,
                Settled::Again => attempt += 1,
            }
        }
    }

    /// Whether it has told of some of what is due, and not of the rest.
    pub(crate) fn is_letting_through(&self) -> bool {
        self.letting_through
    }
}
