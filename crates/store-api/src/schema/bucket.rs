//! Expiry buckets: which rows are dropped together, and when.

/// Milliseconds of a minute, the unit of buckets.
const MINUTE: i64 = 60_000;

/// How the rows of one store are put into buckets: a pure function of its retention.
///
/// A row with time *t* is alive while *t > now − retention*, where *now* is the greatest time that the store has observed.
/// Its bucket is the minute *t + retention*, rounded up to a multiple of the width, which is an eighth of the retention and
/// a minute at least. So the rows that are alive lie in [`Buckets::MAX_ALIVE`] buckets at most, and a bucket whose minute
/// has passed holds no row that is alive, of whatever store.
///
/// Minutes saturate: at 0, and at [`Buckets::NEVER`] (in the year 10136), which is never dropped. There many times share a
/// bucket; what is alive is decided by the time, not by the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Buckets {
    retention: i64,
    width: u32,
}

impl Buckets {
    /// The last bucket, whose rows are never dropped.
    pub const NEVER: u32 = u32::MAX;

    /// In so many buckets lie the rows that are alive, at most.
    pub const MAX_ALIVE: usize = 9;

    /// Buckets for a retention in milliseconds; a negative one counts as 0, at which no row is ever alive.
    pub const fn new(retention: i64) -> Self {
        let retention = if retention < 0 { 0 } else { retention };
        let width = minutes_up(retention / 8 + (retention % 8 != 0) as i64);
        Self { retention, width: if width == 0 { 1 } else { width } }
    }

    /// The retention in milliseconds.
    pub const fn retention(self) -> i64 {
        self.retention
    }

    /// The distance of two buckets, in minutes.
    pub const fn width(self) -> u32 {
        self.width
    }

    /// The bucket of a row with this time; never falls as the time rises.
    pub const fn of(self, time: i64) -> u32 {
        self.at_or_after(minutes_up(time.saturating_add(self.retention)))
    }

    /// The first bucket of this store at or after a minute.
    pub const fn at_or_after(self, minute: u32) -> u32 {
        match minute.checked_next_multiple_of(self.width) {
            Some(bucket) => bucket,
            None => Self::NEVER,
        }
    }

    /// The last bucket of this store at or before a minute.
    pub const fn at_or_before(self, minute: u32) -> u32 {
        if minute == Self::NEVER { minute } else { minute - minute % self.width }
    }

    /// The earliest time of a row that is alive when the store has observed `now`; none if no row can be.
    pub const fn earliest_alive(self, now: i64) -> Option<i64> {
        match now.checked_sub(self.retention) {
            Some(expired) => expired.checked_add(1),
            None => Some(i64::MIN),
        }
    }

    /// The key below which every row of the windowed space has expired once each of its stores has observed `now`: what
    /// [`Shard::drop_below`](crate::Shard::drop_below) is to be called with.
    pub const fn dead_below(now: i64) -> [u8; 4] {
        let first_alive = if now < 0 { 0 } else { now / MINUTE + 1 };
        saturate(first_alive).to_be_bytes()
    }
}

/// Minutes since 1970, rounded up; 0 for what lies before.
const fn minutes_up(millis: i64) -> u32 {
    if millis <= 0 { 0 } else { saturate((millis - 1) / MINUTE + 1) }
}

const fn saturate(minutes: i64) -> u32 {
    if minutes > u32::MAX as i64 { u32::MAX } else { minutes as u32 }
}
