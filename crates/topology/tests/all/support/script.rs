//! Runs closures over one store, each in a processor of its own record.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use millpond_topology::*;

use super::driver::Driver;

type Step<T> = Box<dyn FnOnce(&StoreRef<T>, &mut Cx<'_, T>) -> Result + Send>;

/// The context of a step.
pub(crate) type Cx<'a, T> = Context<'a, Runner<T>>;

/// The processor.
pub(crate) struct Runner<T: StoreKind> {
    store: StoreRef<T>,
    step: Arc<Mutex<Option<Step<T>>>>,
}

impl<T: StoreKind> Processor for Runner<T> {
    type In = Record<String, i64>;
    type Out = Record<String, i64>;

    fn process(&mut self, cx: &mut Context<'_, Self>, _: Self::In) -> Result {
        let step = self.step.lock().unwrap().take().unwrap();
        step(&self.store, cx)
    }
}

/// A topology of one store, and a task that runs what it is given.
pub(crate) struct Script<T: StoreKind> {
    pub(crate) driver: Driver,
    step: Arc<Mutex<Option<Step<T>>>>,
    /// Commit after every step.
    commits: bool,
    at: StoreIndex,
    timestamp: i64,
}

impl<T: StoreKind> Script<T> {
    pub(crate) fn new(spec: StoreSpec<T>) -> Self {
        let mut b = Topology::builder();
        let store = b.add_store(spec);
        let step: Arc<Mutex<Option<Step<T>>>> = Arc::default();
        let shared = step.clone();
        let _ = b
            .stream("in", Consumed::with(Utf8, I64))
            .process(&store, move |_, store| Ok(Runner { store, step: shared.clone() }));
        let driver = Driver::new(&b.build().unwrap());
        let at = driver.store(store.name());
        Self { driver, step, commits: false, at, timestamp: 0 }
    }

    /// With a commit after every step, or with none.
    pub(crate) fn committing(mut self, commits: bool) -> Self {
        self.commits = commits;
        self
    }

    /// Runs a step for a record of this time; the task's stream time follows.
    pub(crate) fn at<R: Send + 'static>(
        &mut self,
        timestamp: i64,
        run: impl FnOnce(&StoreRef<T>, &mut Cx<'_, T>) -> Result<R> + Send + 'static,
    ) -> R {
        self.timestamp = timestamp;
        self.run(run)
    }

    pub(crate) fn run<R: Send + 'static>(
        &mut self,
        run: impl FnOnce(&StoreRef<T>, &mut Cx<'_, T>) -> Result<R> + Send + 'static,
    ) -> R {
        self.try_run(run).unwrap()
    }

    pub(crate) fn try_run<R: Send + 'static>(
        &mut self,
        run: impl FnOnce(&StoreRef<T>, &mut Cx<'_, T>) -> Result<R> + Send + 'static,
    ) -> Result<R> {
        let found: Arc<Mutex<Option<R>>> = Arc::default();
        let out = found.clone();
        let step: Step<T> = Box::new(move |store, cx| {
            *out.lock().unwrap() = Some(run(store, cx)?);
            Ok(())
        });
        *self.step.lock().unwrap() = Some(step);
        self.driver.pipe("in", Some(b"k"), Some(&[0; 8]), self.timestamp)?;
        if self.commits {
            self.driver.port(0).commit();
        }
        Ok(found.lock().unwrap().take().unwrap())
    }

    /// How many puts were refused because they had expired.
    pub(crate) fn refused(&mut self) -> u64 {
        let at = self.at;
        self.driver.port(0).refused(at)
    }

    /// How many changes were logged.
    pub(crate) fn logged(&self) -> usize {
        self.driver.logged().len()
    }

    /// What the log of a versioned store would get.
    pub(crate) fn puts(&mut self) -> Vec<(Vec<u8>, Option<Vec<u8>>, i64)> {
        let at = self.at;
        self.driver.port(0).puts(at)
    }
}

/// Milliseconds.
pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A small generator: the test is the same every time.
pub(crate) struct Lcg(pub(crate) u64);

impl Lcg {
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}
