//! Records that fail, and what is done about them: handlers, retries, dead letters, refused outputs.

mod answers;
mod dead_letters;
mod finals;
mod known_again;
mod random;
mod refused;
mod retries;
mod swallowed;

use std::sync::{Arc, Mutex};

use millpond_runtime::{ErrorAnswer, ErrorHandler, ErrorStage, Failed};
use millpond_testkit::{Driver, DriverBuilder, RawRecord};
use millpond_topology::{
    Consumed, Error, I64, KeyValue, Materialized, Produced, Record, Repartitioned, Result, Serde, StoreRef, Utf8,
};

use crate::support::{builder, closure};

/// What a handler was told.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Told {
    stage: ErrorStage,
    attempt: u32,
    node: Option<String>,
    source: Option<(String, i32, i64)>,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: usize,
    timestamp: i64,
    output: Option<(String, i32)>,
    error: String,
}

/// All that a handler was told.
#[derive(Clone, Default)]
struct Asked(Arc<Mutex<Vec<Told>>>);

impl Asked {
    /// A handler that takes down what it is told.
    fn answering<F>(&self, answer: F) -> impl ErrorHandler + use<F>
    where
        F: Fn(&Failed<'_>) -> ErrorAnswer + Send + Sync + 'static,
    {
        let all = self.0.clone();
        struct Handler<F>(Arc<Mutex<Vec<Told>>>, F);
        impl<F: Fn(&Failed<'_>) -> ErrorAnswer + Send + Sync> ErrorHandler for Handler<F> {
            fn handle(&self, failed: &Failed<'_>, error: &millpond_runtime::Error) -> ErrorAnswer {
                self.0.lock().unwrap().push(Told {
                    stage: failed.stage,
                    attempt: failed.attempt,
                    node: failed.node.map(str::to_owned),
                    source: failed.source.map(|s| (s.topic.to_owned(), s.partition, s.offset)),
                    key: failed.key.map(<[u8]>::to_vec),
                    value: failed.value.map(<[u8]>::to_vec),
                    headers: failed.headers.len(),
                    timestamp: failed.timestamp,
                    output: failed.output.map(|o| (o.topic.to_owned(), o.partition)),
                    error: error.chain(),
                });
                (self.1)(failed)
            }

            fn dead_letter_topics(&self) -> Vec<String> {
                vec!["elsewhere".to_owned()]
            }
        }
        Handler(all, answer)
    }

    fn all(&self) -> Vec<Told> {
        self.0.lock().unwrap().clone()
    }

    fn attempts(&self) -> Vec<u32> {
        self.all().iter().map(|told| told.attempt).collect()
    }
}

/// Numbers that do not serialize at their lower end.
struct Picky;

impl Serde<i64> for Picky {
    fn encode(&self, value: &i64, out: &mut Vec<u8>) -> Result {
        if *value == i64::MIN { Err(Error::other("too low")) } else { I64.encode(value, out) }
    }

    fn decode(&self, bytes: &[u8]) -> Result<i64> {
        I64.decode(bytes)
    }
}

/// How a record fails, half of its effects being done already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Bytes,
    Error,
    Panic,
    Output,
}

const FAULTS: [Fault; 4] = [Fault::Bytes, Fault::Error, Fault::Panic, Fault::Output];

impl Fault {
    fn stage(self) -> ErrorStage {
        match self {
            Self::Bytes => ErrorStage::Deserialization,
            Self::Error | Self::Panic => ErrorStage::Processing,
            Self::Output => ErrorStage::Production,
        }
    }

    fn value(self) -> Vec<u8> {
        match self {
            Self::Bytes => b"not a number".to_vec(),
            Self::Error => number(13),
            Self::Panic => number(14),
            Self::Output => number(15),
        }
    }

    fn record(self, timestamp: i64) -> RawRecord {
        RawRecord::bytes("a", self.value(), timestamp)
    }
}

fn number(n: i64) -> Vec<u8> {
    n.to_be_bytes().to_vec()
}

/// Writes to a store, forwards to two sinks, and only then fails: with an error for 13, with a panic for 14, in the sink for 15.
pub(crate) fn half_done() -> DriverBuilder {
    builder(|b| {
        let store = b.key_value_store("sums", Utf8, I64);
        type Sums = StoreRef<KeyValue<String, i64>>;
        let stream = b.stream("in", Consumed::with(Utf8, I64).named("numbers")).named("half-done").process(
            &store,
            closure(|sums: &Sums, cx, r| {
                let sum = cx.store(sums)?.update(&r.key, |old| Some(old.unwrap_or(0) + r.value))?.unwrap_or(0);
                cx.store(sums)?.put(&format!("last-{}", r.key), &r.value)?;
                cx.forward(Record::new(r.key.clone(), sum, r.timestamp))?;
                match r.value {
                    13 => Err(Error::other("unlucky")),
                    14 => panic!("very unlucky"),
                    15 => cx.forward(Record::new(r.key, i64::MIN, r.timestamp)),
                    _ => cx.forward(Record::new(r.key, -sum, r.timestamp)),
                }
            }),
        );
        stream
            .clone()
            .select_key(|k, _| k.clone())
            .repartition(Repartitioned::named("again").key(Utf8).value(I64))
            .group_by_key()
            .count(Materialized::named("counts"))
            .to_stream()
            .to("counts-out", Produced::with(Utf8, I64));
        stream.to("out", Produced::with(Utf8, Picky).named("results"));
    })
}

/// The records that failed and were written to a topic: keys and values.
fn letters(driver: &Driver, topic: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
    driver.records(topic).into_iter().map(|r| (r.key.unwrap(), r.value.unwrap())).collect()
}
