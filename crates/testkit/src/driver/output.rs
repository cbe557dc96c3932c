//! A topic that a test reads typed records from.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use millpond_broker_api::{Admin, At, Broker, Change, Consumer, ErrorKind, Isolation, Record, Source};
use millpond_broker_mem::EmbeddedBroker;
use millpond_topology::{Header, Headers, Serde};

use super::partitions;
use super::record::{RawRecord, TestRecord};

/// A topic to read; [`Driver::output`](super::Driver::output) makes it. It reads what is committed, each record once, and
/// goes on where it was, across restarts of the driver as well.
///
/// Records of one partition come in their order; of several partitions the lower comes first.
///
/// # Panics
///
/// All its functions do if a record does not fit the serdes: bytes that do not decode, or a null where a serde knows none
/// (see [`Nullable`](millpond_topology::Nullable)).
pub struct OutputTopic<K, V> {
    topic: String,
    key: Arc<dyn Serde<K>>,
    value: Arc<dyn Serde<V>>,
    reader: RefCell<Reader>,
}

impl<K: 'static, V: 'static> OutputTopic<K, V> {
    #[track_caller]
    pub(super) fn new(broker: EmbeddedBroker, topic: String, key: Arc<dyn Serde<K>>, value: Arc<dyn Serde<V>>) -> Self {
        let reader = RefCell::new(Reader::new(&broker, &topic));
        Self { topic, key, value, reader }
    }

    /// The next record; `None` if there is none.
    #[track_caller]
    pub fn read(&self) -> Option<TestRecord<K, V>> {
        let raw = self.reader.borrow_mut().next()?;
        match self.decode(raw) {
            Ok(record) => Some(record),
            Err(why) => panic!("{why}"),
        }
    }

    /// All records that are there and were not read.
    #[track_caller]
    pub fn read_all(&self) -> Vec<TestRecord<K, V>> {
        let mut all = Vec::new();
        while let Some(record) = self.read() {
            all.push(record);
        }
        all
    }

    /// All records that were not read, as keys and values.
    #[track_caller]
    pub fn read_key_values(&self) -> Vec<(K, V)> {
        self.read_all().into_iter().map(|r| (r.key, r.value)).collect()
    }

    /// All values that were not read.
    #[track_caller]
    pub fn read_values(&self) -> Vec<V> {
        self.read_all().into_iter().map(|r| r.value).collect()
    }

    /// The last value of each key among the records that were not read, in the order of the keys.
    #[track_caller]
    pub fn read_latest(&self) -> std::collections::BTreeMap<K, V>
    where
        K: Ord,
    {
        self.read_key_values().into_iter().collect()
    }

    /// Asserts that the records that were not read are these: keys, values and event times, in this order. Headers are not
    /// looked at.
    ///
    /// ```
    /// # use millpond_testkit::Driver;
    /// # use millpond_topology::{Consumed, I64, Produced, Topology, Utf8};
    /// # let mut topology = Topology::builder();
    /// # topology.stream("numbers", Consumed::with(Utf8, I64)).map_values(|n| n * 2).to("twice", Produced::with(Utf8, I64));
    /// # let driver = Driver::builder(topology.build().unwrap()).build()?;
    /// let (numbers, twice) = (driver.input("numbers", Utf8, I64), driver.output("twice", Utf8, I64));
    /// numbers.pipe("a", 4, 100)?;
    /// numbers.pipe("b", 5, 200)?;
    /// twice.expect([("a", 8, 100), ("b", 10, 200)]);
    /// twice.expect_none();
    /// # Ok::<(), millpond_runtime::Error>(())
    /// ```
    ///
    /// # Panics
    ///
    /// At the test's line if they are not; the message has what was expected and what has come out side by side.
    #[track_caller]
    pub fn expect<A: Into<K>, B: Into<V>>(&self, records: impl IntoIterator<Item = (A, B, i64)>)
    where
        K: PartialEq + Debug,
        V: PartialEq + Debug,
    {
        let expected: Vec<_> = records.into_iter().map(|(k, v, t)| TestRecord::new(k.into(), v.into(), t)).collect();
        let got = self.read_all();
        let same = |(a, b): (&TestRecord<K, V>, &TestRecord<K, V>)| {
            a.key == b.key && a.value == b.value && a.timestamp == b.timestamp
        };
        if expected.len() != got.len() || !expected.iter().zip(&got).all(same) {
            let show = |r: &TestRecord<K, V>| format!("{:?}={:?} @{}", r.key, r.value, r.timestamp);
            panic!("{}", sides(&self.topic, &expected, &got, show, same));
        }
    }

    /// As [`OutputTopic::expect`], for keys and values alone.
    #[track_caller]
    pub fn expect_key_values<A: Into<K>, B: Into<V>>(&self, records: impl IntoIterator<Item = (A, B)>)
    where
        K: PartialEq + Debug,
        V: PartialEq + Debug,
    {
        let expected: Vec<(K, V)> = records.into_iter().map(|(k, v)| (k.into(), v.into())).collect();
        let got = self.read_key_values();
        if expected != got {
            let show = |(key, value): &(K, V)| format!("{key:?}={value:?}");
            panic!("{}", sides(&self.topic, &expected, &got, show, |(a, b)| a == b));
        }
    }

    /// Asserts that there is nothing to read.
    #[track_caller]
    pub fn expect_none(&self)
    where
        K: PartialEq + Debug,
        V: PartialEq + Debug,
    {
        self.expect::<K, V>([]);
    }

    /// Whether there is nothing to read.
    #[track_caller]
    pub fn is_empty(&self) -> bool {
        let mut reader = self.reader.borrow_mut();
        reader.fill();
        reader.waiting.is_empty()
    }

    fn decode(&self, raw: RawRecord) -> Result<TestRecord<K, V>, String> {
        let TestRecord { key, value, timestamp, headers, partition, offset } = raw;
        let place = || format!("topic=`{}` partition=`{partition}` offset=`{offset}`", self.topic);
        let key = try_decode(&*self.key, key.as_deref(), &|| format!("the key of {}", place()))?;
        let value = try_decode(&*self.value, value.as_deref(), &|| format!("the value of {}", place()))?;
        Ok(TestRecord { key, value, timestamp, headers, partition, offset })
    }
}

/// What was expected and what came, line by line; lines that differ are marked.
fn sides<T>(
    topic: &str,
    expected: &[T],
    got: &[T],
    show: impl Fn(&T) -> String,
    same: impl Fn((&T, &T)) -> bool,
) -> String {
    let shown = |side: &[T], at: usize| side.get(at).map_or("-".to_owned(), &show);
    let lines = expected.len().max(got.len());
    let width = (0..lines).map(|at| shown(expected, at).chars().count()).max().unwrap_or(0).max("expected".len());
    let mut text = format!("other records than expected in topic=`{topic}`\n    {:width$}   got", "expected");
    for at in 0..lines {
        let is_same = expected.get(at).zip(got.get(at)).is_some_and(&same);
        let mark = if is_same { ' ' } else { '!' };
        text.push_str(&format!("\n  {mark} {:width$}   {}", shown(expected, at), shown(got, at)));
    }
    text
}

impl<K, V> std::fmt::Debug for OutputTopic<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OutputTopic").field("topic", &self.topic).finish_non_exhaustive()
    }
}

/// Reads bytes that a test says are of a type; the error says what does not fit.
pub(super) fn try_decode<T: 'static>(
    serde: &dyn Serde<T>,
    bytes: Option<&[u8]>,
    what: &dyn Fn() -> String,
) -> Result<T, String> {
    match bytes.map(|bytes| serde.decode(bytes)) {
        Some(Ok(value)) => Ok(value),
        Some(Err(e)) => Err(format!("{} does not fit the test's serde: {e:?}", what())),
        None => serde.null().ok_or_else(|| format!("{} is null; read it with `Nullable`", what())),
    }
}

/// Reads a topic's committed records as bytes.
pub(super) struct Reader {
    topic: String,
    consumer: Box<dyn Consumer>,
    admin: Box<dyn Admin>,
    waiting: VecDeque<RawRecord>,
}

impl Reader {
    #[track_caller]
    pub(super) fn new(broker: &EmbeddedBroker, topic: &str) -> Self {
        let made = broker.consumer(&Isolation::ReadCommitted.into()).and_then(|mut consumer| {
            let count = partitions(broker, topic).ok().flatten().unwrap_or(0);
            let add = |p: i32| Change::Add { source: Source(p.unsigned_abs()), topic, partition: p, from: 0 };
            consumer.assign(&(0..count).map(add).collect::<Vec<_>>())?;
            Ok((consumer, broker.admin()?))
        });
        match made {
            Ok((consumer, admin)) => Self { topic: topic.to_owned(), consumer, admin, waiting: VecDeque::new() },
            Err(e) => panic!("cannot read topic=`{topic}`: {e:?}"),
        }
    }

    #[track_caller]
    pub(super) fn next(&mut self) -> Option<RawRecord> {
        if self.waiting.is_empty() {
            self.fill();
        }
        self.waiting.pop_front()
    }

    /// Takes all there is.
    #[track_caller]
    fn fill(&mut self) {
        if let Err(e) = self.try_fill() {
            panic!("cannot read topic=`{}`: {e:?}", self.topic);
        }
    }

    fn try_fill(&mut self) -> millpond_broker_api::Result<()> {
        let mut all = Vec::new();
        loop {
            let batch = self.consumer.poll(Duration::ZERO)?;
            all.extend(batch.iter().map(|r| copy(&r)));
            let (empty, faults) = (batch.is_empty(), batch.faults.to_vec());
            if empty && faults.is_empty() {
                break;
            }
            for (source, error) in faults {
                self.go_on(source, error)?;
            }
        }
        all.sort_by_key(|r| (r.partition, r.offset));
        self.waiting.extend(all);
        Ok(())
    }

    /// A partition whose start was deleted is read from where it begins now.
    fn go_on(&mut self, source: Source, error: millpond_broker_api::Error) -> millpond_broker_api::Result<()> {
        if error.kind() != ErrorKind::OutOfRange {
            return Err(error);
        }
        let start = self.admin.offsets(&[(&self.topic, partition(source), At::Start)])?;
        let start = start.into_iter().next().unwrap_or(Err(error))?;
        self.consumer.assign(&[Change::Seek(source, start)])
    }
}

fn partition(source: Source) -> i32 {
    i32::try_from(source.0).unwrap_or(i32::MAX)
}

fn copy(record: &Record<'_>) -> RawRecord {
    let mut headers = Headers::new();
    for header in record.headers.iter() {
        let value = header.value.map(bytes::Bytes::copy_from_slice);
        headers.push(Header { name: header.name.into(), value });
    }
    TestRecord {
        key: record.key.map(<[u8]>::to_vec),
        value: record.value.map(<[u8]>::to_vec),
        timestamp: record.timestamp,
        headers,
        partition: partition(record.source),
        offset: record.offset,
    }
}
