//! What a store whose rows expire has beside its overlay: its time, its second overlay, and the puts of a versioned one.

use millpond_store_api::{Read, TtlKeyValue, schema::Buckets};
use millpond_topology::{self as topology, Expiry, LayerSpace, LoggedPut, PutLog};

use super::spaces::WINDOWED;
use crate::error::{Error, Result};
use crate::plan::StorePlan;
use crate::state::{Entry, Overlay, OverlayOptions};

/// The time of a store, and what goes by it.
///
/// A store's time is the greatest event time that its task or itself has seen: what is put may lie above the task's time,
/// such as the window that begins right behind a record.
pub(crate) struct StoreTime {
    number: u16,
    retention: i64,
    observed: i64,
    /// What its task has seen does not count.
    by_puts: bool,
    /// Its node keeps rows for so much longer.
    longer_inside: i64,
    /// Its node has let go of what has expired by this time. `None`: it holds nothing.
    let_go: Option<i64>,
    /// The number of the last put, where duplicates are retained.
    numbered: u32,
    /// As it was at the last border: what was observed, up to where its node has let go, the number of the last put.
    before: (i64, Option<i64>, u32),
    refused: u64,
    /// Over the windowed space, of a store that has rows there beside its own space. Its writes are never logged: they
    /// follow from the records.
    pub(super) windowed: Option<Overlay>,
    puts: Option<PutLog>,
    /// Of a store with a time to live: all rows that were due by this time are deleted.
    deleted_to: Option<i64>,
    /// Up to this row of its index.
    deleted_place: Vec<u8>,
    /// So often in a row a turn has not seen the end of what was due.
    behind: u32,
}

/// Rows of the index that a turn looks at, first.
const TURN: usize = 1000;
/// And so often twice as many, at most: a quarter of a million.
const MOST_DOUBLINGS: u32 = 8;

/// Every time has been observed: nothing waits to be deleted.
const NEVER: i64 = i64::MIN;

impl StoreTime {
    /// For a store that has rows that expire; `None` for others.
    pub(super) fn of(plan: &StorePlan, number: u16, overlay: impl Fn(OverlayOptions) -> Overlay) -> Option<Box<Self>> {
        let kept = plan.retention?;
        let is_versioned = plan.kind == topology::StoreType::VersionedKeyValue;
        let is_ttl = plan.kind == topology::StoreType::TtlKeyValue;
        let options = OverlayOptions { space: WINDOWED, caching: false, keep_old: false };
        Some(Box::new(Self {
            number,
            retention: kept.gone_after(),
            observed: NEVER,
            by_puts: kept.by_puts,
            longer_inside: kept.longer_inside,
            let_go: plan.hold.map(|_| NEVER),
            numbered: 0,
            before: (NEVER, plan.hold.map(|_| NEVER), 0),
            refused: 0,
            windowed: (is_versioned || is_ttl).then(|| overlay(options)),
            puts: (is_versioned && plan.changelog.is_some()).then(PutLog::default),
            deleted_to: is_ttl.then_some(NEVER),
            deleted_place: Vec::new(),
            behind: 0,
        }))
    }

    /// The greatest time that counts for its rows.
    pub(super) fn observed(&self) -> i64 {
        self.observed
    }

    /// As [`StoreTime::observed`], for its node.
    fn observed_inside(&self) -> i64 {
        self.let_go.map_or(self.observed, |let_go| let_go.min(self.observed)).saturating_sub(self.longer_inside)
    }

    /// The task's time is at least this.
    pub(super) fn observe(&mut self, time: i64) {
        if !self.by_puts {
            self.observed = self.observed.max(time);
            self.before.0 = self.before.0.max(time);
        }
    }

    /// The node of a held store needs nothing any more that has expired by this time.
    pub(super) fn let_go(&mut self, time: i64) {
        self.let_go = self.let_go.map(|let_go| let_go.max(time));
    }

    /// Goes back to what the shard stands for.
    pub(super) fn reset(&mut self, observed: Option<i64>) {
        self.observed = observed.unwrap_or(NEVER);
        self.let_go = self.let_go.map(|_| NEVER);
        self.numbered = 0;
        (self.before, self.refused) = ((self.observed, self.let_go, 0), 0);
        if let Some(windowed) = &mut self.windowed {
            windowed.clear();
        }
        if let Some(puts) = &mut self.puts {
            puts.clear();
        }
        self.deleted_to = self.deleted_to.map(|_| NEVER);
        self.deleted_place.clear();
    }

    /// For one access at the task's time.
    pub(super) fn access(&mut self, stream_time: i64) -> Expiry<'_> {
        if !self.by_puts {
            self.observed = self.observed.max(stream_time);
        }
        Expiry {
            store: self.number,
            retention: self.retention,
            kept: Buckets::new(self.retention).earliest_alive(self.observed_inside()).unwrap_or(i64::MAX),
            observed: &mut self.observed,
            refused: &mut self.refused,
            numbered: &mut self.numbered,
            windowed: self.windowed.as_mut().map(|overlay| overlay as _),
            puts: self.puts.as_mut(),
        }
    }

    /// A record is done: its puts go to `log`. Answers how many puts were refused.
    pub(super) fn record_done(&mut self, log: &mut dyn FnMut(Entry<'_>)) -> u64 {
        if let Some(windowed) = &mut self.windowed {
            windowed.record_done(&mut |_| ());
        }
        if let Some(puts) = self.puts.as_mut().filter(|puts| !puts.is_empty()) {
            for LoggedPut { key, value, timestamp } in puts.iter() {
                log(Entry { key, value, timestamp });
            }
            puts.clear();
        }
        self.before = (self.observed, self.let_go, self.numbered);
        std::mem::take(&mut self.refused)
    }

    /// A record failed: it was never there.
    pub(super) fn record_failed(&mut self) {
        if let Some(windowed) = &mut self.windowed {
            windowed.record_failed();
        }
        if let Some(puts) = &mut self.puts {
            puts.clear();
        }
        (self.observed, self.let_go, self.numbered) = self.before;
        self.refused = 0;
    }

    /// Whether a minute has passed in which rows were to be deleted.
    #[inline]
    pub(super) fn is_deletion_due(&self, stream_time: i64) -> bool {
        let passed = Buckets::dead_below(self.observed.max(stream_time));
        self.deleted_to.is_some_and(|deleted| Buckets::dead_below(deleted) < passed)
    }

    /// Deletes rows whose time to live has passed, as one record would, and answers how many rows of the index it has looked
    /// at. A turn is short, so that records do not wait; it is twice as long each time the one before was not enough, so that
    /// more rows are deleted than can be put meanwhile.
    pub(super) fn delete_expired(&mut self, rows: &mut Overlay, base: &dyn Read, stream_time: i64) -> Result<usize> {
        self.observe(stream_time);
        let limit = TURN << self.behind.min(MOST_DOUBLINGS);
        let now = self.observed;
        let Some(windowed) = self.windowed.as_mut() else { return Ok(0) };
        let mut rows = LayerSpace { layer: rows, base, timestamp: now };
        let mut index = LayerSpace { layer: windowed, base, timestamp: now };
        let mut view = TtlKeyValue::new(&mut rows, &mut index, self.number, self.retention, now);
        let expired =
            view.expire_behind(&mut self.deleted_place, limit).map_err(|e| Error::store("delete expired rows", e))?;
        self.behind = if expired.more { self.behind + 1 } else { 0 };
        if !expired.more {
            self.deleted_to = Some(now);
        }
        Ok(expired.deleted + expired.stale)
    }

    /// Up to this time nothing of the store is asked for in the windowed space any more.
    pub(super) fn done_with(&self) -> i64 {
        self.deleted_to.map_or(self.observed_inside(), |deleted| deleted.min(self.observed))
    }
}
