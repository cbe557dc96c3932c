//! Stores beside what they should hold: one for each kind, driven by random steps.

mod buffers;
mod list_value;
mod rows;
mod session;
mod ttl;
mod versioned;
mod window;

use std::rc::Rc;

use fastrand::Rng;
use millpond_store_api::Direction;

use crate::Subject;
use crate::expiring::{Asked, MINUTE, Times, key};
use crate::tools::BOTH;

pub(crate) use buffers::{ArrivalTwin, KeyTwin};
pub(crate) use list_value::ListTwin;
pub(crate) use rows::{Plain, RowsTwin, Timestamped, WithHeaders};
pub(crate) use session::SessionTwin;
pub(crate) use ttl::TtlTwin;
pub(crate) use versioned::VersionedTwin;
pub(crate) use window::WindowTwin;

/// A store under test and its model. A copy is what a history goes back to.
pub(crate) trait Twin {
    /// A random operation on both; panics if they answer differently.
    fn step(&mut self, at: &mut dyn Subject, draw: &mut Draw);

    /// Compares all that is there, in both directions.
    fn check(&mut self, at: &mut dyn Subject);

    /// Time passes without a write.
    fn observe(&mut self, _time: i64) {}

    /// Deletes the rows that have expired, if they do not go by themselves.
    fn sweep(&mut self, _at: &mut dyn Subject) {}

    /// Up to when rows of the windowed space have expired and are not needed, as far as this store is concerned.
    fn expired(&self) -> i64 {
        i64::MAX
    }

    fn copy(&self) -> Rc<dyn Twin>;
}

/// What a step is drawn from, and where it says what it does.
pub(crate) struct Draw {
    pub(crate) random: Rng,
    pub(crate) times: Times,
    /// The store at whose step it is, if there are several.
    pub(crate) store: Option<usize>,
    said: Option<Vec<String>>,
}

impl Draw {
    pub(crate) fn new(seed: u64, times: Times) -> Self {
        Self { random: Rng::with_seed(seed), times, store: None, said: None }
    }

    /// From now on what is said is kept.
    pub(crate) fn listen(&mut self) {
        self.said.get_or_insert_default();
    }

    pub(crate) fn said(&self) -> &[String] {
        self.said.as_deref().unwrap_or_default()
    }

    /// Says what is about to be done.
    pub(crate) fn say(&mut self, what: impl FnOnce() -> String) {
        if let Some(said) = &mut self.said {
            said.push(self.store.map_or_else(String::new, |store| format!("store {store}: ")) + &what());
        }
    }

    /// Adds to what was said last.
    pub(crate) fn add(&mut self, what: impl FnOnce() -> String) {
        if let Some(last) = self.said.as_mut().and_then(|said| said.last_mut()) {
            last.push_str(&what());
        }
    }

    /// Bytes that the escape of keys is about; a few keys come often, so that they meet.
    pub(crate) fn key(&mut self) -> Vec<u8> {
        if self.random.bool() {
            [&b"a"[..], b"a\0", b"\xFF"][self.random.usize(..3)].to_vec()
        } else {
            key(&mut self.random)
        }
    }

    /// A key of text.
    pub(crate) fn name(&mut self) -> &'static str {
        ["", "k", "k\0", "kk"][self.random.usize(..4)]
    }

    /// A value of a size at which its place in memory changes, or of another.
    pub(crate) fn value(&mut self) -> Vec<u8> {
        let len = [0, 1, 2, 8, 22, 23, 30, 31, 60][self.random.usize(..9)];
        vec![self.random.u8(b'0'..=b'z'); len]
    }

    pub(crate) fn time(&mut self) -> i64 {
        self.times.draw(&mut self.random)
    }

    pub(crate) fn asked(&mut self) -> Asked {
        Asked::draw(&mut self.random)
    }

    pub(crate) fn direction(&mut self) -> Direction {
        BOTH[self.random.usize(..2)]
    }

    /// Time goes on.
    pub(crate) fn pass(&mut self) {
        self.times.pass(&mut self.random);
    }
}

/// Says where it was, if the run panics.
struct At {
    seed: u64,
    step: u32,
}

impl Drop for At {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("step {} of seed {}", self.step, self.seed);
        }
    }
}

/// So many steps of stores that share the subject, with a settlement now and then, and a comparison of everything at the end.
pub(crate) fn steps<T: Twin>(subject: &mut dyn Subject, twins: &mut [T], seed: u64, times: Times, count: u32) {
    let mut draw = Draw::new(seed, times);
    let mut at = At { seed, step: 0 };
    while at.step < count {
        draw.pass();
        let which = draw.random.usize(..twins.len());
        twins[which].step(subject, &mut draw);
        if draw.random.u8(..25) == 0 {
            subject.settle();
        }
        at.step += 1;
    }
    twins.iter_mut().for_each(|twin| twin.check(subject));
}

/// A kind with what it needs to be made.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    KeyValue,
    Timestamped,
    WithHeaders,
    Ttl,
    Versioned,
    Window,
    WindowWithDuplicates,
    Session,
    ListValue,
    ArrivalBuffer,
    KeyBuffer,
}

impl Kind {
    pub(crate) const ALL: [Self; 11] = [
        Self::KeyValue,
        Self::Timestamped,
        Self::WithHeaders,
        Self::Ttl,
        Self::Versioned,
        Self::Window,
        Self::WindowWithDuplicates,
        Self::Session,
        Self::ListValue,
        Self::ArrivalBuffer,
        Self::KeyBuffer,
    ];

    /// Whether its rows lie in the windowed space alone.
    pub(crate) fn is_windowed(self) -> bool {
        matches!(self, Self::Window | Self::WindowWithDuplicates | Self::Session)
    }

    /// The store with this number, empty, with its model. The retention counts for kinds whose rows expire.
    pub(crate) fn twin(self, number: u16, retention: i64) -> Rc<dyn Twin> {
        match self {
            Self::KeyValue => Rc::new(RowsTwin::<Plain>::default()),
            Self::Timestamped => Rc::new(RowsTwin::<Timestamped>::default()),
            Self::WithHeaders => Rc::new(RowsTwin::<WithHeaders>::default()),
            Self::Ttl => Rc::new(TtlTwin::new(number, retention)),
            Self::Versioned => Rc::new(VersionedTwin::new(number, retention)),
            Self::Window => Rc::new(WindowTwin::new(number, retention)),
            Self::WindowWithDuplicates => Rc::new(WindowTwin::with_duplicates(number, retention)),
            Self::Session => Rc::new(SessionTwin::new(number, retention)),
            Self::ListValue => Rc::new(ListTwin::default()),
            Self::ArrivalBuffer => Rc::new(ArrivalTwin::default()),
            Self::KeyBuffer => Rc::new(KeyTwin::default()),
        }
    }
}

/// Retentions: within one bucket, over a few, over many.
pub(crate) const RETENTIONS: [i64; 4] = [90, 5 * MINUTE, 12 * MINUTE, 40 * MINUTE];
