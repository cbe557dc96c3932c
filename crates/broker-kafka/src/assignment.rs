//! The partitions of a consumer: where each stands, and which of them librdkafka reads.

use std::ffi::CString;

use millpond_broker_api::{Error, ErrorKind, Offset, Result, Source};

use crate::ffi::{Partitions, Reader, Topic};

/// What messages carry of their partition: the address of the topic's handle, and a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) topic: usize,
    pub(crate) partition: i32,
}

/// A partition that is assigned.
pub(crate) struct Part {
    key: Key,
    source: Source,
    name: CString,
    /// Keeps the address in `key` from being another topic's.
    _topic: Topic,
    /// This partition alone, to ask librdkafka for its position.
    alone: Partitions,
    /// Where it was moved to last.
    from: Offset,
    /// After the last record that was lent, and never below where it was moved to.
    next: Offset,
    /// The end of the log, as the last notice of having reached it told since it was moved.
    end: Option<Offset>,
    state: State,
    /// Whether librdkafka reads it.
    begun: bool,
    /// Whether it was moved since librdkafka began to read it.
    moved: bool,
    /// Whether librdkafka's position is one of this beginning, not of the one before.
    confirmed: bool,
    /// Whether something came since it was moved.
    heard: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Live,
    Paused,
    /// It has reported a fault and waits to be moved; whether it is paused besides.
    Faulty {
        paused: bool,
    },
}

impl Part {
    /// To be read from `from` on.
    pub(crate) fn new(reader: &Reader, source: Source, topic: &str, partition: i32, from: Offset) -> Result<Self> {
        check(from)?;
        let unknown = || Error::new(ErrorKind::UnknownTopic, "read a partition").with("topic", topic);
        let name = CString::new(topic).map_err(|_| unknown())?;
        let handle = reader.topic(topic).ok_or_else(unknown)?;
        let mut alone = Partitions::new(1);
        alone.push(&name, partition, 0);
        Ok(Self {
            key: Key { topic: handle.address(), partition },
            source,
            name,
            _topic: handle,
            alone,
            from,
            next: from,
            end: None,
            state: State::Live,
            begun: false,
            moved: false,
            confirmed: false,
            heard: false,
        })
    }

    pub(crate) fn source(&self) -> Source {
        self.source
    }

    /// The topic's name.
    pub(crate) fn topic(&self) -> String {
        self.name.to_string_lossy().into_owned()
    }

    pub(crate) fn partition(&self) -> i32 {
        self.key.partition
    }

    /// After the last record that was lent.
    pub(crate) fn next(&self) -> Offset {
        self.next
    }

    /// Whether it delivers records.
    #[inline]
    pub(crate) fn is_live(&self) -> bool {
        self.state == State::Live
    }

    /// A record came: whose it is, if it is to be lent.
    #[inline]
    pub(crate) fn lend(&mut self, offset: Offset) -> Option<Source> {
        if !self.is_live() || offset < self.next {
            return None;
        }
        self.next = offset + 1;
        (self.heard, self.confirmed) = (true, true);
        Some(self.source)
    }

    /// All up to `end` has come, and there is no more.
    pub(crate) fn end(&mut self, end: Offset) {
        if self.is_live() {
            self.next = self.next.max(end);
            self.end = Some(end);
            (self.heard, self.confirmed) = (true, true);
        }
    }

    /// It has a fault: it is to be read no more until it is moved.
    pub(crate) fn stand_still(&mut self, ended: &mut Partitions) {
        self.state = State::Faulty { paused: false };
        self.halt(ended);
    }

    /// To be read from `to` on.
    pub(crate) fn seek(&mut self, to: Offset) -> Result<()> {
        check(to)?;
        (self.from, self.next, self.end, self.heard) = (to, to, None, false);
        self.confirmed = false;
        self.state = match self.state {
            State::Paused | State::Faulty { paused: true } => State::Paused,
            State::Live | State::Faulty { paused: false } => State::Live,
        };
        self.moved = true;
        Ok(())
    }

    /// To deliver nothing; it stands at `position`.
    pub(crate) fn pause(&mut self, position: Option<Offset>) {
        self.next = position.unwrap_or(self.next);
        self.state = match self.state {
            State::Live | State::Paused => State::Paused,
            State::Faulty { .. } => State::Faulty { paused: true },
        };
    }

    /// To deliver again.
    pub(crate) fn resume(&mut self) {
        self.state = match self.state {
            State::Live | State::Paused => State::Live,
            State::Faulty { .. } => State::Faulty { paused: false },
        };
    }

    /// The next offset to be lent. librdkafka's position is past markers and aborted records; it is one too far after a
    /// notice of the end, and says nothing of before this beginning or after a fault.
    pub(crate) fn position(&self, reader: &Reader) -> Offset {
        if !self.begun || !self.confirmed || !self.is_live() {
            return self.next;
        }
        let told = reader.position(&self.alone).filter(|told| self.end.is_none_or(|end| *told != end + 1));
        told.map_or(self.next, |told| told.max(self.next))
    }

    /// Whether a fetch has answered since it was moved.
    pub(crate) fn has_heard(&self, position: Offset) -> bool {
        self.heard || position > self.from
    }

    /// The end, if the position has come to it.
    pub(crate) fn end_at(&self, position: Offset) -> Option<Offset> {
        self.end.filter(|end| position <= *end)
    }

    /// The high watermark that the last fetch spoke of.
    pub(crate) fn high_watermark(&self, reader: &Reader) -> Option<Offset> {
        reader.high_watermark(&self.name, self.key.partition)
    }

    /// librdkafka is to read it from where it stands.
    fn begin(&mut self, begun: &mut Partitions) {
        begun.push(&self.name, self.key.partition, self.next);
        (self.begun, self.moved, self.confirmed) = (true, false, false);
    }

    /// librdkafka is to read it no more.
    fn halt(&mut self, ended: &mut Partitions) {
        if std::mem::take(&mut self.begun) {
            ended.push(&self.name, self.key.partition, 0);
        }
        self.confirmed = false;
    }
}

/// librdkafka has meanings of its own for offsets below zero.
fn check(offset: Offset) -> Result<()> {
    match offset < 0 {
        true => Err(Error::new(ErrorKind::Fatal, "move a partition").with("offset", offset).with("reason", "negative")),
        false => Ok(()),
    }
}

/// All partitions of a consumer, found by what messages carry.
#[derive(Default)]
pub(crate) struct Table {
    /// Sorted by key.
    parts: Vec<Part>,
    /// Where the last message's partition stands: they come in runs.
    last: usize,
}

impl Table {
    /// The partition of a message.
    #[inline]
    pub(crate) fn find(&mut self, key: Key) -> Option<&mut Part> {
        if self.parts.get(self.last).is_none_or(|part| part.key != key) {
            self.last = self.parts.binary_search_by_key(&key, |part| part.key).ok()?;
        }
        self.parts.get_mut(self.last)
    }

    /// The partition of a name and number.
    pub(crate) fn named(&mut self, topic: &str, partition: i32) -> Option<&mut Part> {
        self.parts.iter_mut().find(|p| p.key.partition == partition && p.name.to_bytes() == topic.as_bytes())
    }

    /// The partition of a source.
    pub(crate) fn of(&self, source: Source) -> Option<&Part> {
        self.parts.iter().find(|part| part.source == source)
    }

    /// The same, to be changed.
    pub(crate) fn of_mut(&mut self, source: Source) -> Option<&mut Part> {
        self.parts.iter_mut().find(|part| part.source == source)
    }

    /// Adds a partition. Its source is free.
    pub(crate) fn add(&mut self, part: Part) -> Result<()> {
        match self.parts.binary_search_by_key(&part.key, |p| p.key) {
            Ok(_) => Err(Error::new(ErrorKind::Fatal, "read a partition")
                .with("topic", part.topic())
                .with("partition", part.partition())
                .with("reason", "it is assigned under another source")),
            Err(at) => {
                self.parts.insert(at, part);
                Ok(())
            }
        }
    }

    /// Removes the partition of a source, if there is one.
    pub(crate) fn remove(&mut self, source: Source, ended: &mut Partitions) {
        if let Some(at) = self.parts.iter().position(|part| part.source == source) {
            self.parts.remove(at).halt(ended);
        }
    }

    /// What librdkafka has to end (besides what is in `ended`) and, after that, to begin, so that it reads what is live.
    pub(crate) fn settle(&mut self, ended: &mut Partitions) -> Partitions {
        let mut begun = Partitions::new(self.parts.len());
        for part in &mut self.parts {
            if part.moved || !part.is_live() {
                part.halt(ended);
            }
            if part.is_live() && !part.begun {
                part.begin(&mut begun);
            }
        }
        begun
    }

    /// Looks, before messages are taken, whether librdkafka has forgotten the positions of before its beginnings.
    pub(crate) fn confirm(&mut self, reader: &Reader) {
        for part in self.parts.iter_mut().filter(|part| part.begun && !part.confirmed) {
            part.confirmed = reader.position(&part.alone).is_none();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ffi::Conf;

    const A: Source = Source(3);

    /// A client that never connects: it has no address.
    fn reader() -> Reader {
        let mut conf = Conf::new();
        conf.set("group.id", "test").unwrap();
        Reader::new(conf).unwrap()
    }

    fn part(reader: &Reader, from: Offset) -> Part {
        Part::new(reader, A, "t", 0, from).unwrap()
    }

    #[test]
    fn records_move_it_and_what_is_behind_it_is_not_lent() {
        let mut part = part(&reader(), 5);
        assert!(!part.has_heard(part.next()));
        assert_eq!((part.lend(4), part.next()), (None, 5));
        assert_eq!((part.lend(7), part.next()), (Some(A), 8));
        assert_eq!(part.lend(7), None, "twice");
        assert!(part.has_heard(part.next()));
    }

    #[test]
    fn the_end_is_known_until_more_comes() {
        let mut part = part(&reader(), 5);
        part.end(9);
        assert_eq!((part.next(), part.end_at(9)), (9, Some(9)));
        part.lend(9);
        assert_eq!(part.end_at(part.next()), None);
        part.seek(2).unwrap();
        assert_eq!((part.next(), part.end_at(2), part.has_heard(2)), (2, None, false));
    }

    #[test]
    fn a_faulty_one_is_silent_until_it_is_moved() {
        let mut part = part(&reader(), 5);
        let mut ended = Partitions::new(1);
        part.stand_still(&mut ended);
        assert!(ended.is_empty(), "librdkafka did not read it");
        part.end(9);
        assert_eq!((part.lend(5), part.next(), part.is_live()), (None, 5, false));
        part.pause(Some(5));
        part.seek(6).unwrap();
        assert!(!part.is_live(), "it is still paused");
        part.resume();
        assert_eq!(part.lend(6), Some(A));
    }

    #[test]
    fn negative_offsets_mean_nothing() {
        let reader = reader();
        assert_eq!(Part::new(&reader, A, "t", 0, -1).err().unwrap().kind(), ErrorKind::Fatal);
        assert_eq!(part(&reader, 0).seek(-2).unwrap_err().kind(), ErrorKind::Fatal);
    }

    #[test]
    fn what_is_live_is_read() {
        let reader = reader();
        let mut table = Table::default();
        table.add(part(&reader, 5)).unwrap();
        let settle = |table: &mut Table| {
            let mut ended = Partitions::new(1);
            let begun = table.settle(&mut ended);
            (!ended.is_empty(), !begun.is_empty())
        };
        assert_eq!(settle(&mut table), (false, true), "added");
        assert_eq!(settle(&mut table), (false, false), "nothing changed");
        table.of_mut(A).unwrap().seek(1).unwrap();
        assert_eq!(settle(&mut table), (true, true), "moved");
        table.of_mut(A).unwrap().pause(None);
        assert_eq!(settle(&mut table), (true, false), "paused");
        table.of_mut(A).unwrap().resume();
        assert_eq!(settle(&mut table), (false, true), "resumed");
        let mut ended = Partitions::new(1);
        table.remove(A, &mut ended);
        assert!(!ended.is_empty() && table.of(A).is_none(), "removed");
    }

    #[test]
    fn messages_find_their_partition() {
        let reader = reader();
        let mut table = Table::default();
        for (source, topic, partition) in [(0, "a", 1), (1, "b", 0), (2, "a", 0)] {
            table.add(Part::new(&reader, Source(source), topic, partition, 0).unwrap()).unwrap();
        }
        let key = |topic: &str, partition| Key { topic: reader.topic(topic).unwrap().address(), partition };
        for (source, topic, partition) in [(2, "a", 0), (2, "a", 0), (1, "b", 0), (0, "a", 1)] {
            let found = table.find(key(topic, partition)).map(|part| part.source());
            assert_eq!(found, Some(Source(source)));
            assert_eq!(table.named(topic, partition).map(|part| part.source()), Some(Source(source)));
        }
        assert!(table.find(key("b", 1)).is_none());
        let twice = table.add(Part::new(&reader, Source(9), "b", 0, 0).unwrap());
        assert_eq!(twice.unwrap_err().kind(), ErrorKind::Fatal, "one partition, two sources");
    }
}
