//! Runs one job as an application: until it runs, until its input is processed and committed, or until it is killed.

use std::sync::Arc;
use std::time::Duration;

use millpond_broker_api::{Admin, At, Broker, ErrorKind, GroupOffsets, Offset, Stable};
use millpond_runtime::{App, AppState, Counter, MetricsRegistry, Ports, Settings};
use millpond_store_rocks::{RocksEngine, RocksSettings};

use crate::args::Args;
use crate::error::Result;
use crate::event::{Events, Fields, rounded};
use crate::figures::{Mark, Run};
use crate::job::Job;
use crate::read_back::ReadBack;
use crate::restore::RestoreLog;
use crate::usage::{Meter, Usage, memory_mb, pause};

/// How often counters and committed offsets are looked at.
const SAMPLE: Duration = Duration::from_millis(10);
/// How often a run without end tells its progress.
const REPORT: Duration = Duration::from_millis(50);
/// How long a question to the broker may take.
const ANSWER: Duration = Duration::from_secs(10);

pub(crate) fn run<B: Broker + Clone + 'static>(broker: B, args: &Args, events: &mut Events<'_>) -> Result {
    let job = Job::named(args.get("job")?)?;
    let (app, store) = Running::start(broker, job, args)?;
    events.tell("running", app.until_running()?)?;
    match args.number::<i64>("records", 0)? {
        0 => {}
        records if records < 0 => app.report(events)?,
        records => events.tell("result", app.measure(records.unsigned_abs())?)?,
    }
    app.app.shutdown()?;
    if args.number("check", 1)? == 1 && job.has_store() {
        let contents = store.contents()?;
        let fields = [("entries", contents.entries.into()), ("sum", contents.sum.into())];
        events.tell("check", fields.map(|(name, value)| (name.to_owned(), value)).into_iter().collect())?;
    }
    Ok(())
}

/// A started application and what is asked about it.
struct Running<B> {
    app: App,
    broker: B,
    meter: Meter,
    started: Usage,
    metrics: Arc<MetricsRegistry>,
    restores: Arc<RestoreLog>,
    input: String,
    /// Where it ends, by partition.
    ends: Vec<Offset>,
}

impl<B: Broker + Clone + 'static> Running<B> {
    fn start(broker: B, job: Job, args: &Args) -> Result<(Self, ReadBack)> {
        let settings = settings(args)?;
        let input = args.get("input")?.to_owned();
        let ends = ends(&mut *broker.admin()?, &input)?;
        let rocks = RocksSettings { flush_interval: settings.flush_interval, ..RocksSettings::default() };
        let store = ReadBack::new(RocksEngine::new(rocks)?);
        let topology = job.topology(&input, args.get("output")?)?;
        let meter = Meter::default();
        let metrics = Arc::new(MetricsRegistry::default());
        let restores = Arc::new(RestoreLog::new(meter));
        let ports = Ports { metrics: metrics.clone(), observer: restores.clone(), ..Ports::default() };
        let started = meter.now();
        let builder = App::builder(&settings.application_id.clone()).settings(settings).ports(ports);
        let app = builder.broker(broker.clone()).engine(store.clone()).start(topology)?;
        Ok((Self { app, broker, meter, started, metrics, restores, input, ends }, store))
    }
}

impl<B: Broker> Running<B> {
    /// Waits until all tasks run; answers with what it took.
    fn until_running(&self) -> Result<Fields> {
        let now = self.until(|| Ok(self.restores.all_running(self.ends.len())))?;
        let mut fields = self.restores.fields(self.started);
        fields.insert("seconds_to_running".to_owned(), rounded(now.seconds_since(self.started)));
        fields.insert("cpu_to_running".to_owned(), rounded(now.cpu_since(self.started)));
        fields.insert("rss_mb".to_owned(), rounded(memory_mb("VmRSS")?));
        fields.insert("peak_rss_mb".to_owned(), rounded(memory_mb("VmHWM")?));
        Ok(fields)
    }

    /// Waits until the input is processed and committed; answers with what it took.
    fn measure(&self, records: u64) -> Result<Fields> {
        let at_least = |records| move || Ok(Some(self.mark()).filter(|mark| mark.records >= records));
        let first = self.until(at_least(1))?;
        let half = self.until(at_least(records / 2))?;
        let last = self.until(at_least(records))?;
        let mut offsets = self.broker.offsets()?;
        self.until(|| Ok((self.committed(&mut *offsets)?.as_ref() == Some(&self.ends)).then_some(())))?;
        // What a rollback has processed twice counts once.
        let last = Mark { records, ..last };
        let mut fields = Run { first, half, last, done: self.meter.now() }.fields()?;
        fields.insert("commits".to_owned(), self.metrics.total(Counter::CommitTotal).into());
        Ok(fields)
    }

    /// Tells the progress until the process is killed.
    fn report(&self, events: &mut Events<'_>) -> Result {
        loop {
            pause(REPORT);
            self.alive()?;
            let fields = [("processed", self.mark().records.into()), ("restored", self.restores.records().into())];
            events.tell("progress", fields.map(|(name, value)| (name.to_owned(), value)).into_iter().collect())?;
        }
    }

    fn mark(&self) -> Mark {
        Mark { usage: self.meter.now(), records: self.metrics.total(Counter::ProcessTotal) }
    }

    fn until<T>(&self, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
        loop {
            if let Some(found) = look()? {
                return Ok(found);
            }
            self.alive()?;
            pause(SAMPLE);
        }
    }

    /// The application's own error, if it has ended.
    fn alive(&self) -> Result {
        match self.app.state() {
            AppState::Failed | AppState::Stopped => {
                self.app.wait()?;
                Err("the application has stopped by itself".into())
            }
            AppState::Rebalancing | AppState::Running | AppState::Disconnected | AppState::Stopping => Ok(()),
        }
    }

    /// The group's offsets of the input, if all partitions have one and no transaction may still change them.
    fn committed(&self, offsets: &mut dyn GroupOffsets) -> Result<Option<Vec<Offset>>> {
        let of: Vec<(&str, i32)> =
            (0..).zip(&self.ends).map(|(partition, _)| (self.input.as_str(), partition)).collect();
        match offsets.fetch_stable(self.app.id(), &of, ANSWER) {
            Ok(Stable::Offsets(found)) => Ok(found.into_iter().map(|committed| Some(committed?.next)).collect()),
            Ok(Stable::Unstable { .. }) => Ok(None),
            Err(e) if e.kind() == ErrorKind::Retriable => Ok(None),
            Err(e) => Err(e.into()),
        }
    }
}

fn ends(admin: &mut dyn Admin, topic: &str) -> Result<Vec<Offset>> {
    let known = admin.describe(&[topic])?.into_iter().flatten().next();
    let partitions = known.ok_or_else(|| format!("there is no topic `{topic}`"))?.partitions;
    let of: Vec<(&str, i32, At)> = (0..partitions).map(|partition| (topic, partition, At::End)).collect();
    admin.offsets(&of)?.into_iter().map(|end| Ok(end?)).collect()
}

fn settings(args: &Args) -> Result<Settings> {
    let mut settings = Settings::new(args.get("app")?);
    let (guarantee, commit) = match args.find("guarantee").unwrap_or("alos") {
        "alos" => ("at_least_once", "1000"),
        "eos" => ("exactly_once_v2", "100"),
        other => return Err(format!("`guarantee={other}` is neither alos nor eos").into()),
    };
    settings.set("processing.guarantee", guarantee)?;
    settings.set("commit.interval.ms", args.find("commit").unwrap_or(commit))?;
    settings.set("num.stream.threads", args.find("threads").unwrap_or("1"))?;
    settings.set("state.dir", args.get("state")?)?;
    for (key, value) in args.under("conf.") {
        settings.set(key, value)?;
    }
    Ok(settings)
}
