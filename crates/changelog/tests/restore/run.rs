//! One restore against a fake consumer and shard, step by step as a worker takes it.

use std::time::Duration;

use millpond_broker_api::{Change, Consumer};
use millpond_changelog::{
    Applied, Applier, ApplyLimits, Changelog, Decision, LogRange, Restore, RestorePhase, RestoreProgress, ShardMetadata,
};
use millpond_store_api::Result;

use crate::NOW;
use crate::fakes::{FakeConsumer, FakeShard};

/// One restore on its way, with all that a worker holds for it.
pub(crate) struct Run<'a> {
    pub(crate) consumer: &'a mut FakeConsumer,
    pub(crate) shard: &'a mut FakeShard,
    pub(crate) metadata: ShardMetadata,
    pub(crate) restore: Restore,
    pub(crate) applier: Applier,
    pub(crate) total: Applied,
}

impl<'a> Run<'a> {
    pub(crate) fn plan(consumer: &'a mut FakeConsumer, shard: &'a mut FakeShard, changelogs: &[Changelog]) -> Self {
        let with_range = |c: &Changelog| (c.clone(), consumer.logs[&(c.topic.to_string(), 0)].range());
        let ranges: Vec<_> = changelogs.iter().map(with_range).collect();
        Self::plan_to(consumer, shard, ranges)
    }

    pub(crate) fn plan_to(
        consumer: &'a mut FakeConsumer,
        shard: &'a mut FakeShard,
        changelogs: Vec<(Changelog, LogRange)>,
    ) -> Self {
        let metadata = shard.metadata();
        let restore = Restore::plan(&metadata, changelogs, NOW);
        Self { consumer, shard, metadata, restore, applier: Applier::default(), total: Applied::default() }
    }

    pub(crate) fn limits(mut self, limits: ApplyLimits) -> Self {
        self.applier = Applier::new(limits);
        self
    }

    pub(crate) fn begin(&mut self) -> Result<()> {
        self.applier.prepare(&mut self.restore, self.shard, &mut self.metadata)?;
        let changes: Vec<_> = self.restore.changes().collect();
        self.consumer.assign(&changes).unwrap();
        Ok(())
    }

    /// One poll and what follows from it; answers whether a source stood still.
    pub(crate) fn step(&mut self) -> Result<bool> {
        let batch = self.consumer.poll(Duration::ZERO).unwrap();
        let fault = !batch.faults.is_empty();
        let applied = self.applier.batch(&batch).apply(&mut self.restore, self.shard, &mut self.metadata)?;
        self.total.batches += applied.batches;
        self.total.records += applied.records;
        self.total.bytes += applied.bytes;
        self.total.null_keys += applied.null_keys;
        self.total.past_end += applied.past_end;
        for source in self.restore.reading().collect::<Vec<_>>() {
            let position = self.consumer.position(source).unwrap();
            if !fault && self.restore.reached(source, position) {
                self.consumer.assign(&[Change::Remove(source)]).unwrap();
            }
        }
        self.applier.finish(&mut self.restore, self.shard, &mut self.metadata)?;
        Ok(fault)
    }

    /// To the end, within a bounded number of polls.
    pub(crate) fn complete(mut self) -> Self {
        self.begin().unwrap();
        self.applier.finish(&mut self.restore, self.shard, &mut self.metadata).unwrap();
        for _ in 0..10_000 {
            if self.restore.phase() == RestorePhase::CaughtUp {
                assert_eq!(self.shard.metadata(), self.metadata);
                assert!(!self.metadata.restoring);
                return self;
            }
            assert!(!self.step().unwrap(), "no source stands still");
        }
        panic!("never ends: {:?}", self.restore);
    }

    pub(crate) fn progress(&self) -> RestoreProgress<'_> {
        self.restore.progress().next().unwrap()
    }

    pub(crate) fn decision(&self) -> Decision {
        self.restore.decisions().next().unwrap().decision
    }
}
