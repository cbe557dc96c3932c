//! Tasks, workers, rebalance, commit and restore of Millpond.
//!
//! | you want | look at |
//! |---|---|
//! | to run an application | [`App`] |
//! | to step one by hand | [`Instance`] |
//! | settings | [`Settings`] |
//! | to decide what becomes of records that fail | [`ErrorHandler`] |
//! | time, threads, metrics of your own | [`Ports`], [`Metrics`] |
//!
//! Most users take all of it through the crate `millpond`.

mod app;
mod assign;
mod builder;
mod error;
mod exec;
mod group;
mod handler;
mod instance;
mod metrics;
mod output;
mod plan;
mod ports;
mod settings;
mod sizing;
pub mod state;
mod task;
mod topics;
mod worker;

pub use app::{App, AppState, Progress, Shutdown, TaskProgress};
pub use assign::{ClusterView, MemberView, Subscription, TaskAssignment, assign};
pub use builder::AppBuilder;
pub use error::{Disposition, Error, ErrorKind, Result};
pub use handler::{ErrorAnswer, ErrorHandler, ErrorStage, Failed, RefusedOutput, WithDeadLetterTopics};
pub use instance::{Instance, InstanceSpec};
pub use metrics::{Counter, Gauge, Metrics, MetricsRegistry, NoMetrics, Scope};
pub use ports::{
    Bug, Clock, FailPoint, FailPoints, NoFailPoints, NoObserver, Observer, Ports, Random, Spawner, SystemClock,
    SystemRandom, SystemSpawner,
};
pub use settings::{ClientConfigs, ErrorPolicy, Guarantee, OffsetReset, Settings};
pub use sizing::{Estimate, RowsLie, Sizing, StoreSizing, WindowSizing};
pub use state::MemorySettings;
pub use task::{TaskId, TaskState};

const _: () = {
    const fn send_and_sync<T: Send + Sync>() {}
    const fn send<T: Send>() {}
    send_and_sync::<App>();
    send_and_sync::<MetricsRegistry>();
    send_and_sync::<Ports>();
    send_and_sync::<Settings>();
    send_and_sync::<state::Budget>();
    // One thread at a time: the builder's and that of whoever steps it.
    send::<AppBuilder>();
    send::<Instance>();
    send::<InstanceSpec>();
};
