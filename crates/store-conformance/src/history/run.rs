//! One history, step by step, on a stack and on the models beside it.

use std::rc::Rc;

use fastrand::Rng;
use millpond_store_api::schema::Buckets;
use millpond_store_api::{Flush, SpaceMut};

use super::caught::caught;
use super::plan::{Action, Plan};
use super::{End, Make, Stack};
use crate::Subject;
use crate::twin::{Draw, Twin};

/// What went wrong, and what was done until then.
pub(super) struct Wrong {
    pub(super) message: String,
    pub(super) done: Vec<String>,
}

/// Runs a history to its end; what is done is told on request.
pub(super) fn run(make: Make<'_>, plan: &Plan, telling: bool) -> Result<(), Wrong> {
    let mut draw = Draw::new(plan.seed, plan.times);
    if telling {
        draw.listen();
    }
    caught(|| Run::new(make, plan, &mut draw).run(plan))
        .map_err(|message| Wrong { message, done: draw.said().to_vec() })
}

/// All stores at one moment. A model is copied when it changes.
type State = Vec<Rc<dyn Twin>>;

struct Run<'a> {
    stack: Box<dyn Stack>,
    /// Whether the stores' rows lie in the windowed space alone.
    windowed: Vec<bool>,
    now: State,
    /// At the last border of a record.
    border: State,
    /// After each batch, whose number is its metadata. The first one is of no batch.
    states: Vec<State>,
    /// The batch that is durable at least.
    durable: usize,
    persistent: bool,
    draw: &'a mut Draw,
}

impl<'a> Run<'a> {
    fn new(make: Make<'_>, plan: &Plan, draw: &'a mut Draw) -> Self {
        let mut stack = make(plan.stores.len() as u16);
        let persistent = stack.shard().capabilities().persistent;
        let now: State =
            (0..).zip(&plan.stores).map(|(number, (kind, retention))| kind.twin(number, *retention)).collect();
        let windowed = plan.stores.iter().map(|(kind, _)| kind.is_windowed()).collect();
        Self { stack, windowed, border: now.clone(), states: vec![now.clone()], now, durable: 0, persistent, draw }
    }

    fn run(&mut self, plan: &Plan) {
        plan.actions.iter().for_each(|action| self.act(*action));
        self.commit();
        self.check();
        self.restart(End::Close);
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Step { store, seed } => {
                self.draw.random = Rng::with_seed(seed);
                self.draw.pass();
                self.draw.store = Some(store);
                let mut at = At { stack: &mut *self.stack, store: store as u16, windowed: self.windowed[store] };
                own(&mut self.now[store]).step(&mut at, self.draw);
                self.draw.store = None;
            }
            Action::Done => self.record_done(),
            Action::Failed => {
                self.draw.say(|| "the record fails".into());
                self.stack.record_failed();
                self.now.clone_from(&self.border);
            }
            Action::Leap(seed) => {
                self.draw.random = Rng::with_seed(seed);
                self.draw.times.leap(&mut self.draw.random);
            }
            Action::Observe => self.observe(),
            Action::Commit => self.commit(),
            Action::Abort => {
                self.record_done();
                self.draw.say(|| "abort".into());
                self.stack.abort();
                self.go_back();
            }
            Action::Flush(how) => self.flush(how),
            Action::Durable => {
                let durable = position(self.stack.shard().durable().expect("nothing has failed"));
                self.durable = self.durable.max(durable);
                self.draw.say(|| format!("batch {durable} is durable"));
            }
            Action::Drop => self.drop_expired(),
            Action::Expire => {
                self.observe();
                self.sweep();
                self.commit();
                self.flush(Flush::Wait);
                self.drop_expired();
            }
            Action::Restart(end) => self.restart(end),
        }
    }

    fn record_done(&mut self) {
        self.draw.say(|| "the record is done".into());
        self.stack.record_done();
        self.border.clone_from(&self.now);
    }

    /// The time of the task moves on, and with it that of stores that got nothing.
    fn observe(&mut self) {
        let time = self.draw.time();
        self.draw.say(|| format!("all observe {time}"));
        self.now.iter_mut().for_each(|twin| own(twin).observe(time));
    }

    /// All rows that have expired are deleted, where that is up to the store.
    fn sweep(&mut self) {
        self.draw.say(|| "all sweep".into());
        for (store, twin) in self.now.iter_mut().enumerate() {
            let windowed = self.windowed[store];
            own(twin).sweep(&mut At { stack: &mut *self.stack, store: store as u16, windowed });
        }
    }

    fn flush(&mut self, how: Flush) {
        self.draw.say(|| format!("flush: {how:?}"));
        self.stack.shard().flush(how).expect("the shard is flushed");
        if how == Flush::Wait && self.persistent {
            self.durable = self.states.len() - 1;
        }
    }

    fn commit(&mut self) {
        self.record_done();
        let number = self.states.len();
        self.draw.say(|| format!("commit batch {number}"));
        self.stack.commit(&number.to_be_bytes());
        self.states.push(self.now.clone());
    }

    /// To the last batch.
    fn go_back(&mut self) {
        self.now.clone_from(self.states.last().expect("there is the first one"));
        self.border.clone_from(&self.now);
    }

    /// Drops what has expired for all stores at the batch to which a crash may go back.
    fn drop_expired(&mut self) {
        let at = if self.persistent { self.durable } else { self.states.len() - 1 };
        let time = self.states[at].iter().map(|twin| twin.expired()).min().unwrap_or(i64::MAX);
        if time < i64::MAX {
            self.draw.say(|| format!("drop what has expired at {time}"));
            self.stack.drop_below(&Buckets::dead_below(time));
        }
    }

    /// What is found is a state since the durable one, and everything goes on from there.
    fn restart(&mut self, end: End) {
        let last = self.states.len() - 1;
        self.draw.say(|| format!("{end:?} with batch {last} applied, {} durable", self.durable));
        self.stack.restart(end);
        let at = position(self.stack.shard().committed());
        self.draw.add(|| format!(": back at {at}"));
        let expected = match end {
            _ if !self.persistent => 0..=0,
            End::Close => last..=last,
            End::Crash => self.durable..=last,
        };
        assert!(expected.contains(&at), "opened at batch {at} instead of {expected:?}");
        self.states.truncate(at + 1);
        self.durable = at;
        self.go_back();
        self.check();
    }

    fn check(&mut self) {
        self.draw.say(|| "compare everything".into());
        for (store, twin) in self.now.iter_mut().enumerate() {
            let windowed = self.windowed[store];
            own(twin).check(&mut At { stack: &mut *self.stack, store: store as u16, windowed });
        }
        self.stack.record_done();
    }
}

/// The model alone, to change it.
fn own(twin: &mut Rc<dyn Twin>) -> &mut dyn Twin {
    if Rc::get_mut(twin).is_none() {
        *twin = twin.copy();
    }
    Rc::get_mut(twin).expect("a copy is nobody else's")
}

/// The number of the batch that metadata stands for; what is no number stands for one that there never was.
fn position(metadata: Option<&[u8]>) -> usize {
    metadata.map_or(0, |bytes| bytes.try_into().map_or(usize::MAX, usize::from_be_bytes))
}

/// A store's spaces, as its kind wants them: a windowed kind has no other.
struct At<'a> {
    stack: &'a mut dyn Stack,
    store: u16,
    windowed: bool,
}

impl Subject for At<'_> {
    fn with(&mut self, body: &mut dyn FnMut(&mut dyn SpaceMut)) {
        let windowed = self.windowed;
        self.stack.lend(self.store, &mut |own, shared| body(if windowed { shared } else { own }));
    }

    fn with_both(&mut self, body: &mut dyn FnMut(&mut dyn SpaceMut, &mut dyn SpaceMut)) {
        self.stack.lend(self.store, body);
    }

    /// A history says itself when it commits.
    fn settle(&mut self) {}
}
