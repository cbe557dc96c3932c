//! What suppression tells of windows, where Kafka Streams does it otherwise in all cases and says so in none.
//!
//! * A window whose end belongs to it (of sliding windows and sessions) is told of when the aggregation takes no more records for
//!   it. Kafka Streams does it one millisecond before; where that shows, as a second final result, a case says that it deviates.
//! * What a row was before its first update is nothing. Kafka Streams writes the aggregation's initial value there.
//! * An update that comes out of a cache has no topic, partition and offset.

use millpond_store_api::{BufferValue, UpdateContext};
use millpond_topology::{Serde as _, StoreType, Topology};

use crate::case::{self, Output, RawRecord, Step};
use crate::hex::{hex, unhex};
use crate::op::{Op, Until, Window};
use crate::value::{Key, Kind, Val, nullable};

/// A case that suppresses windows until they close.
pub(crate) struct Finals {
    /// Of windows whose end belongs to them: for how long they take records behind it.
    delay: Option<i64>,
    initial: Option<Vec<u8>>,
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
        let delay = ops().find_map(window).and_then(|window| match window {
            Window::Time { .. } => None,
            Window::Sliding { grace_ms, .. } => Some(grace_ms),
            Window::Session { gap_ms, grace_ms, .. } => Some(gap_ms + grace_ms),
        });
        let delay = delay.and_then(|delay| i64::try_from(delay).ok());
        let initial = ops().find_map(|op| match op {
            Op::Count { .. } => Some((Kind::Long, Some(Val::Long(0)))),
            Op::Aggregate { r#fn, .. } => Some((r#fn.kind(), r#fn.initial())),
            _ => None,
        });
        let initial = initial.filter(|(_, value)| value.is_some()).and_then(|(kind, value)| {
            let mut bytes = Vec::new();
            nullable(kind).encode(&value, &mut bytes).is_ok().then_some(bytes)
        });
        let cached = topology.config.cache_bytes > 0;
        Some(Self { delay, initial, cached, steps: later(steps, delay.unwrap_or(0)) })
    }

    /// What comes out at a step, where Kafka Streams has told of it by then.
    pub(crate) fn outputs(&self, at: usize, step: &Step) -> Vec<Output> {
        match self.delay {
            Some(_) => self.steps.get(at).cloned().unwrap_or_default(),
            None => step.out.clone(),
        }
    }

    /// The records of the buffer's changelog; none if they come at other steps.
    pub(crate) fn logged(&self, records: &[RawRecord]) -> Option<Vec<RawRecord>> {
        if self.delay.is_some() {
            return None;
        }
        let logged = |record: &RawRecord| {
            let value_hex = record.value_hex.as_ref().map(|value| self.value(value).unwrap_or_else(|| value.clone()));
            RawRecord { value_hex, ..record.clone() }
        };
        Some(records.iter().map(logged).collect())
    }

    fn value(&self, value: &str) -> Option<String> {
        let bytes = unhex(value)?;
        let (value, time) = bytes.split_last_chunk::<8>()?;
        let BufferValue { context, prior, old, new } = BufferValue::decode(value).ok()?;
        let known = |side: Option<&'_ [u8]>| side.is_some_and(|side| self.initial.as_deref() != Some(side));
        let context =
            if self.cached { UpdateContext { topic: "", partition: -1, offset: -1, ..context } } else { context };
        let value =
            BufferValue { context, prior: prior.filter(|_| known(prior)), old: old.filter(|_| known(old)), new };
        let mut out = Vec::new();
        value.encode(&mut out).ok()?;
        out.extend_from_slice(time);
        Some(hex(&out))
    }
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

/// Whether a topic is the changelog of a suppression buffer.
pub(crate) fn is_of_buffer(topology: &Topology, topic: &str) -> bool {
    let buffers = topology.stores().iter().filter(|store| store.kind == StoreType::SuppressionBuffer);
    buffers.map(|store| format!("app-{}-changelog", store.name)).any(|name| name == topic)
}
