//! A time that a task has come to: of a node, or up to which a store's final results were forwarded.

/// A time in milliseconds since 1970. It only grows, is undone with a record that fails, and is committed beside the input
/// offsets, since it must hold exactly as long as the outputs that it speaks of.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mark {
    time: Option<i64>,
    /// As it was at the last border.
    before: Option<i64>,
    /// As it was committed last.
    committed: Option<i64>,
}

impl Mark {
    /// As it was committed.
    pub(crate) fn of_committed(time: i64) -> Self {
        Self { time: Some(time), before: Some(time), committed: Some(time) }
    }

    pub(crate) fn time(self) -> Option<i64> {
        self.time
    }

    /// It is at least this; answers what it is.
    pub(crate) fn raise(&mut self, time: i64) -> i64 {
        let raised = self.time.map_or(time, |now| now.max(time));
        self.time = Some(raised);
        raised
    }

    #[inline]
    pub(crate) fn record_done(&mut self) {
        self.before = self.time;
    }

    pub(crate) fn record_failed(&mut self) {
        self.time = self.before;
    }

    pub(crate) fn has_changed(self) -> bool {
        self.time != self.committed
    }

    pub(crate) fn committed(&mut self) {
        (self.before, self.committed) = (self.time, self.time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_is_undone_with_its_record_and_changes_until_it_is_committed() {
        let mut mark = Mark::default();
        assert!(!mark.has_changed());
        assert_eq!((mark.raise(10), mark.raise(5)), (10, 10));
        mark.record_done();
        assert_eq!((mark.time(), mark.has_changed()), (Some(10), true));
        mark.committed();
        mark.raise(20);
        assert!(mark.has_changed());
        mark.record_failed();
        assert_eq!((mark.time(), mark.has_changed()), (Some(10), false));
        assert!(!Mark::of_committed(7).has_changed());
    }
}
