//! Duplicates in a stream: `dedup_by`.

use std::sync::Arc;
use std::time::Duration;

use crate::dsl::at::{declare, own_stores};
use crate::dsl::options::{Kept, Materialized};
use crate::dsl::repartition::{Cut, CutNames};
use crate::dsl::stream::Stream;
use crate::graph::NodeSpec;
use crate::millis::whole;
use crate::names::prefix;
use crate::node::{Build, Built};
use crate::nodes::{Dedup, FixKey, KeyAndId, OriginSerde, fixed_key_outs};
use crate::problem::ProblemKind;
use crate::processor::ProcessorNode;
use crate::record::Record;
use crate::serde::Coder;
use crate::store::{Logging, StoreSet, StoreSpec, Window};

impl<K: 'static, V: 'static> Stream<K, V> {
    /// Lets the first of several records with one id through, and drops those that follow it.
    ///
    /// # What a duplicate is
    ///
    /// A record is a duplicate if a record of the **same key and the same id**, whose event time is at most `within` before or
    /// after its own, **has been let through** before. So records are judged in the order in which they are processed, by
    /// their event times, and it does not matter which of them is the earlier one: of `1@100` and `1@95` that come in this
    /// order, the first goes through. A duplicate that was dropped makes no other record one. `within` may be zero: then only a
    /// record with the very same time is a duplicate.
    ///
    /// Ids are compared for equal keys only: the answer does not depend on how many partitions there are. Where the id alone
    /// is to decide, make it the key by [`Stream::select_key`]. A stream whose key may have changed is repartitioned first,
    /// which needs its serdes: give them by [`Stream::repartition`]. Records whose key or id is null (for its serde) are
    /// dropped and counted, as by a grouping.
    ///
    /// # How much is kept
    ///
    /// The times of records that were let through, in a window store, for its [retention](Materialized::retention): by default
    /// as long as a record may be `within` late. A record that is later (by retention − `within`, or more, behind the greatest
    /// event time that the task has seen) could not be judged; it is dropped and counted as late.
    ///
    /// # Failures
    ///
    /// Under exactly-once each first record goes through once, whatever happens. Under at-least-once a record that is processed
    /// again after a crash is known by its offset and goes through again: none is lost.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use millpond_topology::*;
    /// # let mut builder = Topology::builder();
    /// builder
    ///     .stream("payments", Consumed::with(Utf8, Utf8))
    ///     .dedup_by(|_, payment| payment.clone(), Duration::from_secs(600), Materialized::named("paid").key(Utf8))
    ///     .to("payments-once", Produced::default());
    /// ```
    pub fn dedup_by<I: 'static>(
        mut self,
        id: impl Fn(&K, &V) -> I + Send + Sync + 'static,
        within: Duration,
        materialized: Materialized<I, ()>,
    ) -> Self {
        let store_name = match materialized.name {
            Some(ref name) => name.clone(),
            None => self.at.graph().names.store(prefix::DEDUP),
        };
        let name = self.at.next_name(prefix::DEDUP);
        const REPARTITION: &str = "give it by `repartition(Repartitioned::with(..))` before";
        let key = self.at.serde(self.key.take(), || {
            format!("no serde is known for the key at `dedup_by` (`{name}`); {REPARTITION}")
        });
        let ids = self.at.serde(materialized.key.clone(), || {
            format!("no serde is known for the id at `dedup_by` (`{name}`); name it in `Materialized::key`")
        });
        if self.rekeyed {
            let names = CutNames::generate(&self.at);
            let value = self.at.serde(self.value.clone(), || {
                format!("no serde is known for the value at `dedup_by` (`{name}`); {REPARTITION}")
            });
            self.at = Cut::of(store_name.clone(), key.clone(), value).add(&self.at, names);
        }
        let keys = KeyAndId::new(Coder::key(key.clone()), Coder::key(ids));
        let within = whole(within).unwrap_or_else(|wrong| {
            let message = format!("`{name}` looks for duplicates within {wrong}");
            self.at.graph().problem(ProblemKind::Shape, message);
            0
        });
        let (spec, grace) = self.seen(store_name, within, keys.clone(), materialized);
        let seen = declare(&mut self.at.graph(), spec, format!("`{name}`"));
        let (bound, seen) = (&seen).bind();
        let id = Arc::new(id);
        let build: Build = Arc::new(move |b| {
            let outs = fixed_key_outs(b.outs::<Record<K, V>>()?);
            let (id, keys, seen) = (id.clone(), keys.clone(), seen.clone());
            let node = ProcessorNode::build(b, outs, |_| Ok(Dedup::new(id, keys, within, grace, seen)))?;
            Ok(Built::node::<Record<K, V>>(FixKey(node)))
        });
        let mut spec = NodeSpec::processor(name, vec![self.at.node], build).keeping_key();
        spec.stores = own_stores(&mut self.at.graph(), &spec.name, bound);
        let node = self.at.graph().add::<Record<K, V>, Record<K, V>>(spec);
        Self { at: self.at.moved(node), rekeyed: false, key: Some(key), value: self.value }
    }

    /// The store of what was let through, and how late a record may be; `within` and the latter in milliseconds.
    fn seen<I: 'static>(
        &self,
        name: String,
        within: i64,
        keys: KeyAndId<K, I>,
        materialized: Materialized<I, ()>,
    ) -> (StoreSpec<Seen<K, I>>, i64) {
        // What is wrong with a retention is told of when the store is declared.
        let millis = |duration| whole(duration).unwrap_or_default();
        let within = Duration::from_millis(within.unsigned_abs());
        let usual = within.saturating_mul(2).saturating_add(Duration::from_millis(1));
        let retention = match materialized.kept {
            Kept::AsNeeded => usual,
            Kept::Retention(given) if millis(given) > millis(within) => given,
            Kept::Retention(given) => {
                let message = format!(
                    "the store `{name}` has a retention of {given:?}, but duplicates are looked for within {within:?}; make \
                     the retention longer, by as much as records may be late"
                );
                self.at.graph().problem(ProblemKind::Store, message);
                usual
            }
            Kept::History(_) | Kept::TimeToLive(_) => {
                let message = format!("the store `{name}` keeps times of records: give it a `retention`, nothing else");
                self.at.graph().problem(ProblemKind::Store, message);
                usual
            }
        };
        let spec = StoreSpec::window(&name, retention, Duration::from_millis(1), keys, OriginSerde);
        let spec = match materialized.logging {
            Logging::Disabled => spec.logging_disabled(),
            Logging::Enabled { topic_configs } => spec.logging(topic_configs),
        };
        let spec = match materialized.engine {
            Some(engine) => spec.engine(engine),
            None => spec,
        };
        (spec, millis(retention).saturating_sub(millis(within)))
    }
}

/// The store: when (the start of a window) which record was let through.
type Seen<K, I> = Window<(K, I), crate::nodes::Origin>;
