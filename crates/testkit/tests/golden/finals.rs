//! What suppression tells of windows, where Kafka Streams does it otherwise: [`Easing::LaterFinals`],
//! [`Easing::OldValues`], [`Easing::NoContext`].

use std::collections::{BTreeMap, BTreeSet};

use millpond_store_api::{BufferValue, UpdateContext};

use crate::case::{self, Output, RawRecord, Step};
use crate::compare::Differences;
use crate::easings::Easing;
use crate::hex::{hex, unhex};
use crate::op::{Op, Until, Window};
use crate::value::Key;

/// A case that suppresses windows until they close.
pub(crate) struct Finals {
    /// Of windows whose end belongs to them: for how long they take records behind it.
    delay: Option<i64>,
    is_sliding: bool,
    is_of_sessions: bool,
    cached: bool,
    /// By step: what comes out.
    steps: Vec<Vec<Output>>,
}

impl Finals {
    pub(crate) fn of(topology: &case::Topology, steps: &[Step]) -> Option<Self> {
        let ops = || topology.ops.iter().map(|line| &line.op);
        ops().find(|op| matches!(op, Op::Suppress { until: Until::WindowClose, .. }))?;
        let window = |op: &Op| match op {
            Op::Count { window } | Op::Reduce { window, .. } | Op::Aggregate { window, .. } => window.clone(),
            _ => None,
        };
        let window = ops().find_map(window);
        let is_sliding = matches!(window, Some(Window::Sliding { .. }));
        let is_of_sessions = matches!(window, Some(Window::Session { .. }));
        let delay = window.and_then(|window| match window {
            Window::Time { .. } => None,
            Window::Sliding { grace_ms, .. } => Some(grace_ms),
            Window::Session { gap_ms, grace_ms, .. } => Some(gap_ms + grace_ms),
        });
        let delay = delay.and_then(|delay| i64::try_from(delay).ok());
        let cached = topology.config.cache_bytes > 0;
        Some(Self { delay, is_sliding, is_of_sessions, cached, steps: later(steps, delay.unwrap_or(0)) })
    }

    /// What comes out at a step; none if that is what Kafka Streams tells then.
    pub(crate) fn outputs(&self, at: usize) -> Option<&Vec<Output>> {
        self.steps.get(at).filter(|_| self.are_later())
    }

    /// Whether they come at other steps than in Kafka Streams. What the buffer logs does, too, in the same order per window.
    pub(crate) fn are_later(&self) -> bool {
        self.delay.is_some()
    }

    /// The records of the buffer's changelog. Nothing is told of a window before its result is final: so there is no value from
    /// before it had to wait, and none at all before its first update.
    pub(crate) fn logged(&self, records: &[RawRecord], found: &mut Differences) -> Vec<RawRecord> {
        let mut waiting = BTreeMap::new();
        let logged = |record: &RawRecord| {
            let before: Option<Option<Vec<u8>>> = waiting.remove(&record.key_hex);
            let value_hex = record.value_hex.as_ref().map(|golden| {
                let is_moment = self.is_of_sessions && record.key_hex.as_deref().is_some_and(is_moment);
                let old = match &before {
                    None => Old::Absent,
                    Some(before) if is_moment => Old::Known(before.as_deref()),
                    Some(_) => Old::Golden,
                };
                let Some((value, new)) = self.value(golden, old, found) else { return golden.clone() };
                waiting.insert(record.key_hex.clone(), new);
                value
            });
            RawRecord { value_hex, ..record.clone() }
        };
        records.iter().map(logged).collect()
    }

    /// An update with the old value that is right; and its new one.
    fn value(&self, golden: &str, old: Old<'_>, found: &mut Differences) -> Option<(String, Option<Vec<u8>>)> {
        let bytes = unhex(golden)?;
        let (value, end) = bytes.split_last_chunk::<8>()?;
        let value = BufferValue::decode(value).ok()?;
        let old = match old {
            Old::Absent => None,
            Old::Known(old) => old,
            Old::Golden => value.old,
        };
        found.ease(Easing::OldValues, value.prior.is_some() || value.old != old);
        found.ease(Easing::NoContext, self.cached);
        let context = match self.cached {
            true => UpdateContext { topic: "", partition: -1, offset: -1, ..value.context },
            false => value.context,
        };
        let new = value.new.map(<[u8]>::to_vec);
        Some((encoded(&BufferValue { context, prior: None, old, ..value }, end)?, new))
    }

    /// What we have logged, as if a sliding window that one record makes twice had been made once: the second update has the
    /// same value, and the first one's as old value.
    pub(crate) fn made_once(&self, records: &[RawRecord]) -> Vec<RawRecord> {
        let mut waiting = BTreeSet::new();
        let once = |record: &RawRecord| {
            let mut record = record.clone();
            match &record.value_hex {
                None => drop(waiting.remove(&record.key_hex)),
                Some(value) if waiting.insert(record.key_hex.clone()) && self.is_sliding => {
                    record.value_hex = without_equal_old(value).or(record.value_hex);
                }
                Some(_) => {}
            }
            record
        };
        records.iter().map(once).collect()
    }
}

/// The value of a window before an update of it that waits.
enum Old<'a> {
    /// There was none.
    Absent,
    /// This one.
    Known(Option<&'a [u8]>),
    /// What the case says.
    Golden,
}

/// A session that ends when it begins: an update replaces it, where that of any other deletes it first.
fn is_moment(key: &str) -> bool {
    let tail = key.get(key.len().saturating_sub(32)..).unwrap_or_default();
    tail.get(..16) == tail.get(16..)
}

fn without_equal_old(value: &str) -> Option<String> {
    let bytes = unhex(value)?;
    let (value, end) = bytes.split_last_chunk::<8>()?;
    let value = BufferValue::decode(value).ok()?;
    encoded(&BufferValue { old: value.old.filter(|_| value.old != value.new), ..value }, end)
}

/// An update as it waits: the time of its window's end is behind it.
fn encoded(value: &BufferValue<'_>, end: &[u8]) -> Option<String> {
    let mut out = Vec::new();
    value.encode(&mut out).ok()?;
    out.extend_from_slice(end);
    Some(hex(&out))
}

/// What has come out, each at the first step at which time is more than `delay` behind the window's end.
fn later(steps: &[Step], delay: i64) -> Vec<Vec<Output>> {
    let (mut waiting, mut time) = (Vec::new(), -1);
    let mut all = Vec::new();
    for step in steps {
        time = time.max(step.ts.unwrap_or(-1));
        waiting.extend(step.out.iter().cloned());
        let closed = |output: &Output| match &output.key {
            Key::Windowed(key) => key.end.saturating_add(delay) < time,
            Key::Plain(_) => true,
        };
        let (told, rest) = waiting.into_iter().partition(closed);
        all.push(told);
        waiting = rest;
    }
    all
}
