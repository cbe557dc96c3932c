//! The processors that cases name, but the one that runs commands.

use millpond_topology::{Context, Error, Header, KeyValue, Nullable, Processor, Record, Result, StoreRef, Timer};

use crate::op::Clock;
use crate::value::{Cell, Val};

type Message = Record<Cell, Cell>;
type Texts = StoreRef<KeyValue<Cell, Cell>>;

impl Clock {
    pub(crate) fn schedule(self, every_ms: i64) -> millpond_topology::Schedule {
        match self {
            Self::StreamTime => millpond_topology::Schedule::stream_time_ms(every_ms),
            Self::WallClock => millpond_topology::Schedule::wall_clock_ms(every_ms),
        }
    }
}

/// Counts the records of each key, as text.
pub(crate) struct CountByKey(pub(crate) Texts);

impl Processor for CountByKey {
    type In = Message;
    type Out = Message;

    fn process(&mut self, cx: &mut Context<'_, Self>, record: Message) -> Result {
        let mut counts = cx.store(&self.0)?;
        let old = counts.get(&record.key)?.flatten();
        let new = Some(Val::Text((old.as_ref().map_or(Ok(0), Val::number)? + 1).to_string()));
        counts.put(&record.key, &new)?;
        cx.forward(record.with_value(new))
    }
}

/// Holds the last value of each key back until a punctuation.
pub(crate) struct Hold(pub(crate) Texts);

impl Hold {
    pub(crate) fn release(&mut self, cx: &mut Context<'_, Self>, now: i64) -> Result {
        let mut rows = cx.store(&self.0)?.all();
        while let Some((key, value)) = rows.next(cx)? {
            cx.forward(Record::new(key.clone(), value, now))?;
            cx.store(&self.0)?.delete(&key)?;
        }
        Ok(())
    }
}

impl Processor for Hold {
    type In = Message;
    type Out = Message;

    fn process(&mut self, cx: &mut Context<'_, Self>, record: Message) -> Result {
        cx.store(&self.0)?.put(&record.key, &record.value)
    }
}

/// Tells of each punctuation; cancels itself after some.
pub(crate) struct Punctuate {
    pub(crate) timer: Timer,
    pub(crate) left: Option<u64>,
}

impl Punctuate {
    pub(crate) fn tick(&mut self, cx: &mut Context<'_, Self>, now: i64) -> Result {
        cx.forward(Record::new(Some(Val::text("punctuate")), Some(Val::Text(now.to_string())), now))?;
        if let Some(left) = &mut self.left {
            *left -= 1;
            if *left == 0 {
                cx.cancel(self.timer);
            }
        }
        Ok(())
    }
}

impl Processor for Punctuate {
    type In = Message;
    type Out = Message;

    fn process(&mut self, cx: &mut Context<'_, Self>, record: Message) -> Result {
        cx.forward(record)
    }
}

/// Adds a header with the record's value.
pub(crate) struct AddHeader(pub(crate) String);

impl Processor for AddHeader {
    type In = Message;
    type Out = Message;

    fn process(&mut self, cx: &mut Context<'_, Self>, mut record: Message) -> Result {
        let value = record.value.as_ref().map(|value| value.to_string().into());
        record.headers.push(Header { name: self.0.as_str().into(), value });
        cx.forward(record)
    }
}

/// Gives every record one time.
pub(crate) struct WithTimestamp(pub(crate) i64);

impl Processor for WithTimestamp {
    type In = Message;
    type Out = Message;

    fn process(&mut self, cx: &mut Context<'_, Self>, mut record: Message) -> Result {
        record.timestamp = self.0;
        cx.forward(record)
    }
}

/// Tells where the record was read, and what time it is.
pub(crate) struct ForwardMetadata;

impl Processor for ForwardMetadata {
    type In = Message;
    type Out = Message;

    fn process(&mut self, cx: &mut Context<'_, Self>, record: Message) -> Result {
        let place = cx.metadata().map(|m| format!("{}-{}@{}", m.topic, m.partition, m.offset));
        let place = place.ok_or_else(|| Error::other("a record comes from somewhere"))?;
        let told = format!("{place} streamTime={}", cx.stream_time());
        cx.forward(record.with_value(Some(Val::Text(told))))
    }
}

/// The serde of the stores of these processors.
pub(crate) const CELL: Nullable<crate::value::Dynamic> = Nullable(crate::value::Dynamic(crate::value::Kind::Text));
