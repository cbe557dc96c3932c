//! How much memory an application takes whose state outgrows its budget by far.
//!
//! One application over `broker-mem`, with its real threads: a task per partition, eight stores per task, without changelogs
//! (which would be in this process, too). Each record puts rows into all stores, reads some and scans a little, until there is as
//! much state as was asked for. A thread looks at the resident memory all the while.

mod load;
mod program;
mod watch;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use millpond_broker_api::{
    Admin, Broker, Clock, GroupOffsets, NewTopic, Outgoing, Producer, ProducerOptions, Sent, Stable, SystemClock,
    TopicId,
};
use millpond_broker_mem::EmbeddedBroker;
use millpond_runtime::{App, AppState, Counter, Gauge, Scope, Settings};
use millpond_store_api::Engine;
use millpond_store_rocks::{RocksEngine, RocksSettings};

use self::load::Progress;
pub use self::program::program;
pub use self::watch::pause;
use self::watch::{Watch, resident};
use crate::error::Result;

const APPLICATION: &str = "memory";
/// So many records lie ready; each is some work.
const AHEAD: u64 = 4096;
/// So often those that were read are deleted, since they lie in this process.
const TIDY: u64 = 16_384;
/// How often progress is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// Whose choice RocksDB's memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryOf {
    /// The budget's.
    Budget,
    /// RocksDB's own defaults, per shard; the rest keeps to the budget.
    RocksDb,
}

/// What is measured.
#[derive(Clone, Debug)]
pub struct MemoryOptions {
    /// `memory.budget.bytes`.
    pub budget: u64,
    /// Whose choice RocksDB's memory is.
    pub engine: MemoryOf,
    /// Tasks, and so shards.
    pub shards: i32,
    /// When it has seen enough.
    pub end: End,
    /// Event time from one record to the next. Windows are a minute long and kept for half an hour, so a long time makes rows
    /// expire as fast as they come.
    pub pace: Duration,
    /// Bytes of a value.
    pub value: usize,
    /// `num.stream.threads`.
    pub threads: usize,
    /// Where the state lies; empty or missing.
    pub dir: PathBuf,
}

/// When a measurement ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// There are so many bytes of keys and values, if none expire.
    State(u64),
    /// So many rows were written.
    Writes(u64),
}

impl End {
    /// How much of the way lies behind, in quarters.
    fn quarters(self, progress: &Progress) -> u64 {
        match self {
            Self::State(bytes) => progress.state() * 4 / bytes.max(1),
            Self::Writes(writes) => progress.writes() * 4 / writes.max(1),
        }
    }
}

/// What was found out.
#[derive(Clone, Copy, Debug)]
pub struct MemoryReport {
    /// Resident bytes before the application was started: broker and engine were there.
    pub before: u64,
    /// The most that was resident, in each quarter of the way; the last one with the clean stop.
    pub peaks: [u64; 4],
    /// The most files, sockets and the like that were open.
    pub descriptors: usize,
    /// The most that the overlays were counted to hold.
    pub overlays: u64,
    /// The most that RocksDB was counted to hold: blocks, indexes, filters and memtables; 0 where it is not asked.
    pub engine: u64,
    /// Rows that were written, updates included.
    pub writes: u64,
    /// Bytes of keys and values that there would be in the end if none expired.
    pub state: u64,
    /// Bytes of RocksDB's files in the end.
    pub files: u64,
    /// How long the writing took.
    pub elapsed: Duration,
    /// How often a batch of a commit had to wait for memory.
    pub waits: u64,
    /// The longest of these waits.
    pub longest_wait: Duration,
}

impl MemoryReport {
    /// The most that was resident while it ran.
    pub fn peak(&self) -> u64 {
        self.peaks.into_iter().max().unwrap_or(0)
    }

    /// What the application took.
    pub fn taken(&self) -> u64 {
        self.peak().saturating_sub(self.before)
    }
}

/// Runs the application until it has seen enough.
pub fn measure(options: &MemoryOptions) -> Result<MemoryReport> {
    let broker = EmbeddedBroker::new();
    let configs = [("retention.ms", "-1")];
    let topic = NewTopic { name: load::INPUT, partitions: options.shards, replication: None, configs: &configs };
    broker.admin()?.create_topics(&[topic])?.into_iter().try_for_each(|made| made)?;
    let engine = Arc::new(match options.engine {
        MemoryOf::Budget => RocksEngine::new(RocksSettings::default())?,
        MemoryOf::RocksDb => RocksEngine::untuned()?,
    });
    let progress = Arc::new(Progress::new(options.value));
    let topology = load::topology(options, &progress)?;
    let settings = Settings {
        workers: options.threads,
        state_dir: Some(options.dir.clone()),
        memory_budget: Some(options.budget),
        ..Settings::new(APPLICATION)
    };
    let mut input = Input::of(&broker, options)?;
    let (clock, before) = (SystemClock::default(), resident()?);
    let watch = Watch::start()?;
    let started = clock.now();
    let app =
        App::builder(APPLICATION).settings(settings).broker(broker.clone()).engine(engine.clone()).start(topology)?;
    let (mut counted, mut quarter, mut peaks, mut descriptors) = ((0, 0), 0, [0; 4], 0);
    loop {
        let quarters = options.end.quarters(&progress);
        if quarters > quarter || quarters >= 4 {
            descriptors = descriptors.max(std::fs::read_dir("/proc/self/fd")?.count());
        }
        while quarter < quarters.min(3) {
            peaks.iter_mut().skip(quarter as usize).take(1).for_each(|peak| *peak = watch.peak_so_far());
            quarter += 1;
        }
        if quarters >= 4 {
            break;
        }
        if !matches!(app.state(), AppState::Rebalancing | AppState::Running) {
            app.wait()?;
            return Err("the application has stopped by itself".into());
        }
        input.keep_ahead(app.metrics().total(Counter::ProcessTotal))?;
        let (overlays, in_engine) = (overlays(&app), engine.memory().total());
        counted = (overlays.max(counted.0), in_engine.max(counted.1));
        pause(LOOK);
    }
    let elapsed = clock.now() - started;
    let usage = engine.usage();
    app.shutdown()?;
    let [.., last] = &mut peaks;
    *last = watch.stop();
    Ok(MemoryReport {
        before,
        peaks,
        descriptors,
        overlays: counted.0,
        engine: counted.1,
        writes: progress.writes(),
        state: progress.state(),
        files: usage.shards.iter().map(|shard| shard.file_bytes).sum(),
        elapsed,
        waits: usage.waits,
        longest_wait: usage.longest_wait,
    })
}

/// What the overlays hold now.
fn overlays(app: &App) -> u64 {
    let held = [Gauge::CacheBytes, Gauge::UncommittedBytes];
    held.iter().filter_map(|gauge| app.metrics().gauge(*gauge, Scope::Client)).sum()
}

/// Writes the records that the application reads: numbers, to one partition after the other.
struct Input {
    producer: Box<dyn Producer>,
    admin: Box<dyn Admin>,
    offsets: Box<dyn GroupOffsets>,
    topic: TopicId,
    partitions: i32,
    pace: Duration,
    sent: u64,
    tidied: u64,
}

impl Input {
    fn of(broker: &EmbeddedBroker, options: &MemoryOptions) -> Result<Self> {
        let mut producer = broker.producer(&ProducerOptions::default())?;
        Ok(Self {
            topic: producer.topic(load::INPUT),
            producer,
            admin: broker.admin()?,
            offsets: broker.offsets()?,
            partitions: options.shards,
            pace: options.pace,
            sent: 0,
            tidied: 0,
        })
    }

    fn keep_ahead(&mut self, processed: u64) -> Result {
        while self.sent < processed + AHEAD {
            let number = self.sent.to_be_bytes();
            let record = Outgoing {
                topic: self.topic,
                partition: (self.sent % self.partitions as u64) as i32,
                timestamp: load::timestamp(self.sent, self.pace),
                key: Some(&number),
                value: Some(&number),
                headers: &[],
                tag: 0,
            };
            match self.producer.send(&record)? {
                Sent::Queued => self.sent += 1,
                Sent::Full => drop(self.producer.flush(Duration::ZERO)?),
            }
        }
        self.producer.flush(Duration::ZERO)?;
        if processed >= self.tidied + TIDY {
            self.tidied = processed;
            self.delete_committed()?;
        }
        Ok(())
    }

    fn delete_committed(&mut self) -> Result {
        let inputs: Vec<(&str, i32)> = (0..self.partitions).map(|partition| (load::INPUT, partition)).collect();
        let Stable::Offsets(committed) = self.offsets.fetch_stable(APPLICATION, &inputs, Duration::ZERO)? else {
            return Ok(());
        };
        let below = committed
            .iter()
            .zip(&inputs)
            .filter_map(|(committed, (topic, partition))| Some((*topic, *partition, committed.as_ref()?.next)));
        for deleted in self.admin.delete_records(&below.collect::<Vec<_>>())? {
            deleted?;
        }
        Ok(())
    }
}
