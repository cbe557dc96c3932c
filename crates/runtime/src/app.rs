//! A running application: the threads of an instance, its state, its clean end.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::builder::AppBuilder;
use crate::error::{Error, ErrorKind, Result};
use crate::group::GroupMember;
use crate::instance::{Instance, InstanceSpec, Shared};
use crate::metrics::MetricsRegistry;
use crate::state::MemorySettings;
use crate::task::{TaskId, TaskState};
use crate::worker::{Pulse, ToMember, Worker};

/// How long a thread waits in one step. Everything that matters wakes it earlier.
const MEMBER_WAIT: Duration = Duration::from_millis(100);

/// Where an application is (Kafka Streams' `KafkaStreams.State`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AppState {
    /// Some task is not running yet: the group rebalances, or state is restored.
    Rebalancing,
    /// All tasks of this instance run.
    Running,
    /// The cluster does not answer: the group's coordinator is looked for, and what cannot be committed is tried again. It
    /// goes on by itself when the cluster is back.
    Disconnected,
    /// It was asked to stop, and commits and closes.
    Stopping,
    /// It has stopped in good order.
    Stopped,
    /// It has stopped with an error; [`App::wait`] tells which.
    Failed,
}

/// How an application has ended that was given a time for it.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// All that was done is committed, everything is closed, and the instance has left the group.
    Clean,
    /// The time was over, or the cluster did not answer. What was not committed is done again by the next owner, as after a
    /// crash; under exactly-once it counts once.
    GivenUp {
        /// Threads that are not over: inside a function of the user, or in a call to the broker that began before the close.
        /// They commit nothing any more, and end by themselves when it returns (a call after `request.timeout.ms`).
        threads_left: usize,
    },
}

/// A task of this instance, and how far it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskProgress {
    /// The task.
    pub id: TaskId,
    /// The worker that has it.
    pub worker: usize,
    /// Its state.
    pub state: TaskState,
    /// Changelog records that its restore still has to read.
    pub restore_remaining: u64,
    /// What it waits for, in words.
    pub waiting: Option<String>,
}

/// How far an instance is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// All its tasks, in order.
    pub tasks: Vec<TaskProgress>,
}

/// What the threads of an application share about its end.
#[derive(Debug, Default)]
struct Status {
    inner: Mutex<Ends>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Ends {
    stopping: bool,
    error: Option<Error>,
    /// Threads that are not over.
    running: usize,
}

impl Status {
    fn lock(&self) -> MutexGuard<'_, Ends> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first error counts: those that follow are often its consequences.
    fn fail(&self, error: Error) {
        tracing::error!("{}", error.chain());
        self.lock().error.get_or_insert(error);
        self.changed.notify_all();
    }

    fn thread_over(&self) {
        self.lock().running -= 1;
        self.changed.notify_all();
    }
}

/// A running application. Its threads are its own: start, stop and drop work alike in plain threads and in async programs.
///
/// Dropping it asks for a clean stop and does not wait for it.
pub struct App {
    shared: Arc<Shared>,
    status: Arc<Status>,
    to_member: Sender<ToMember>,
    member_waker: Waker,
    pulses: Vec<Arc<Pulse>>,
    metrics: Arc<MetricsRegistry>,
    threads: Vec<JoinHandle<()>>,
}

impl App {
    /// Starts an application; returns when its threads run. Wrong settings, missing topics, an unusable state directory and
    /// a topology that cannot be built are errors here.
    pub(crate) fn start(spec: InstanceSpec, metrics: Arc<MetricsRegistry>) -> Result<Self> {
        let instance = Instance::new(spec)?;
        let shared = Arc::clone(instance.shared());
        let (member, workers, to_member, member_waker) = instance.into_parts();
        let status = Arc::new(Status::default());
        status.lock().running = workers.len() + 1;
        let pulses = workers.iter().map(Worker::pulse).collect();
        let mut app = Self { shared, status, to_member, member_waker, pulses, metrics, threads: Vec::new() };
        app.spawn("member", move |status| run_member(member, status))?;
        // All of them before the first thread: one that cannot be started says farewell, too.
        let farewell = |worker: &Worker| Farewell {
            worker: worker.number,
            status: Arc::clone(&app.status),
            to_member: app.to_member.clone(),
            waker: app.member_waker.clone(),
        };
        let workers: Vec<_> = workers.into_iter().map(|w| (farewell(&w), w)).collect();
        for (farewell, worker) in workers {
            app.spawn(&format!("worker-{}", worker.number), move |status| {
                let _farewell = farewell;
                run_worker(worker, status);
            })?;
        }
        Ok(app)
    }

    fn spawn(&mut self, name: &str, body: impl FnOnce(&Status) + Send + 'static) -> Result {
        let status = Arc::clone(&self.status);
        let run = move || {
            if catch_unwind(AssertUnwindSafe(|| body(&status))).is_err() {
                status.fail(
                    Error::new(ErrorKind::Fatal, "run a thread").with("reason", "it panicked: a bug of the library"),
                );
            }
            status.thread_over();
        };
        let name = format!("{}-{name}", self.shared.settings.application_id);
        let thread = self
            .shared
            .ports
            .spawner
            .spawn(&name, Box::new(run))
            .map_err(|e| Error::new(ErrorKind::Fatal, "start a thread").with("thread", &name).caused_by(e))?;
        self.threads.push(thread);
        Ok(())
    }

    /// Begins an application with this `application.id`.
    pub fn builder(application_id: &str) -> AppBuilder {
        AppBuilder::new(application_id)
    }

    /// What it counts and measures.
    pub fn metrics(&self) -> &Arc<MetricsRegistry> {
        &self.metrics
    }

    /// The `application.id`, which is the group's id, too.
    pub fn id(&self) -> &str {
        &self.shared.settings.application_id
    }

    /// Where the application is now.
    pub fn state(&self) -> AppState {
        let ends = self.status.lock();
        match (&ends.error, ends.stopping, ends.running) {
            (Some(_), ..) => AppState::Failed,
            (None, _, 0) => AppState::Stopped,
            (None, true, _) => AppState::Stopping,
            (None, false, _) if self.shared.disconnected.load(Ordering::Relaxed) => AppState::Disconnected,
            (None, false, _) if self.pulses.iter().all(|p| p.is_running()) => AppState::Running,
            _ => AppState::Rebalancing,
        }
    }

    /// How far its tasks are, as its workers said last (at most a tenth of a second ago).
    pub fn progress(&self) -> Progress {
        let mut tasks: Vec<TaskProgress> = self.pulses.iter().flat_map(|p| p.tasks()).collect();
        tasks.sort_by_key(|t| t.id);
        Progress { tasks }
    }

    /// Changes the memory budget, as [`Instance::set_memory`] does.
    pub fn set_memory(&self, settings: &MemorySettings) -> Result {
        self.shared.memory.set(settings)
    }

    /// Asks all workers for a commit; does not wait for it.
    pub fn request_commit(&self) {
        self.pulses.iter().for_each(|p| p.ask_commit());
    }

    /// Asks for a clean stop; does not wait for it.
    pub fn stop(&self) {
        self.status.lock().stopping = true;
        if self.to_member.send(ToMember::Stop).is_ok() {
            self.member_waker.wake_by_ref();
        }
    }

    /// Waits until the application has ended by itself, by [`App::stop`] from another thread, or with an error.
    pub fn wait(&self) -> Result {
        let mut ends = self.status.lock();
        while ends.running > 0 {
            ends = self.status.changed.wait(ends).unwrap_or_else(PoisonError::into_inner);
        }
        ends.error.clone().map_or(Ok(()), Err)
    }

    /// Stops in good order, as [`App::shutdown`] does, and gives up what is not done in time (Kafka Streams' `close(Duration)`):
    /// returns when all is done, or when the time is over. The last fifth of the time is for leaving the group.
    ///
    /// Called again it waits for what is left; the time can only become shorter. The state directory is free once no thread
    /// is left and the `App` is dropped.
    ///
    /// # Errors
    ///
    /// The error that the application has ended with.
    pub fn shutdown_within(&self, time: Duration) -> Result<Shutdown> {
        self.shared.closing.within(time);
        self.stop();
        let ends = self.status.lock();
        let waited = self.status.changed.wait_timeout_while(ends, time, |ends| ends.running > 0);
        let ends = waited.unwrap_or_else(PoisonError::into_inner).0;
        match &ends.error {
            Some(error) => Err(error.clone()),
            None if ends.running == 0 && self.shared.closing.is_clean() => Ok(Shutdown::Clean),
            None => Ok(Shutdown::GivenUp { threads_left: ends.running }),
        }
    }

    /// Stops in good order: every worker commits, closes its tasks, and the instance leaves the group at once. Waits for all
    /// of it: for a cluster that does not answer several times `request.timeout.ms`, for a function of the user for ever.
    /// [`App::shutdown_within`] does not.
    pub fn shutdown(mut self) -> Result {
        self.stop();
        for thread in std::mem::take(&mut self.threads) {
            // A panic was caught inside, and is the application's error.
            let _ = thread.join();
        }
        self.wait()
    }
}

impl Drop for App {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App").field("id", &self.shared.settings.application_id).field("state", &self.state()).finish()
    }
}

/// Tells the member that a worker's thread is over, however it ended: the member waits for all of them before it leaves.
struct Farewell {
    worker: usize,
    status: Arc<Status>,
    to_member: Sender<ToMember>,
    waker: Waker,
}

impl Drop for Farewell {
    fn drop(&mut self) {
        // Nobody listens any more when the member has left.
        let _ = self.to_member.send(ToMember::Stopped { worker: self.worker });
        // A failed application leaves the group in good order.
        if std::thread::panicking() || self.status.lock().error.is_some() {
            let _ = self.to_member.send(ToMember::Stop);
        }
        self.waker.wake_by_ref();
    }
}

fn run_member(mut member: GroupMember, status: &Status) {
    while !member.is_gone() {
        if let Err(e) = member.step(MEMBER_WAIT) {
            status.fail(e);
            member.stop_workers();
            return;
        }
    }
}

fn run_worker(mut worker: Worker, status: &Status) {
    let poll = worker.shared.settings.poll;
    while !worker.is_stopped() {
        if let Err(e) = worker.step(poll) {
            status.fail(e);
            worker.abandon();
        }
    }
}
