//! Up to which window close final results of a store were forwarded.

/// A window close in milliseconds since 1970. It only grows, is undone with a record that fails, and is committed beside the
/// input offsets, since it must hold exactly as long as the outputs that it speaks of.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Released {
    close: Option<i64>,
    /// As it was at the last border.
    before: Option<i64>,
    /// As it was committed last.
    committed: Option<i64>,
}

impl Released {
    pub(super) fn close(self) -> Option<i64> {
        self.close
    }

    pub(super) fn raise(&mut self, close: i64) {
        self.close = self.close.max(Some(close));
    }

    #[inline]
    pub(super) fn record_done(&mut self) {
        self.before = self.close;
    }

    pub(super) fn record_failed(&mut self) {
        self.close = self.before;
    }

    pub(super) fn has_changed(self) -> bool {
        self.close != self.committed
    }

    pub(super) fn committed(&mut self) {
        (self.before, self.committed) = (self.close, self.close);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_is_undone_with_its_record_and_changes_until_it_is_committed() {
        let mut released = Released::default();
        assert!(!released.has_changed());
        released.raise(10);
        released.raise(5);
        released.record_done();
        assert_eq!((released.close(), released.has_changed()), (Some(10), true));
        released.committed();
        released.raise(20);
        assert!(released.has_changed());
        released.record_failed();
        assert_eq!((released.close(), released.has_changed()), (Some(10), false));
    }
}
