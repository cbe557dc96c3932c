//! A broker whose committed offsets are taken as they are, although a transaction may still change them: a planted fault.

use std::time::Duration;

use millpond_broker_api::membership::Link;
use millpond_broker_api::{
    Admin, AdminOptions, Broker, CommitOutcome, Consumer, ConsumerOptions, GroupOffset, GroupOffsets, Member, Producer,
    ProducerOptions, Result, Stable,
};
use millpond_broker_mem::EmbeddedBroker;

/// Passes everything on but the question for stable offsets.
#[derive(Clone, Debug)]
pub(super) struct Unstable(pub(super) EmbeddedBroker);

impl Broker for Unstable {
    fn name(&self) -> String {
        self.0.name()
    }

    fn consumer(&self, options: &ConsumerOptions) -> Result<Box<dyn Consumer>> {
        self.0.consumer(options)
    }

    fn producer(&self, options: &ProducerOptions<'_>) -> Result<Box<dyn Producer>> {
        self.0.producer(options)
    }

    fn offsets(&self) -> Result<Box<dyn GroupOffsets>> {
        Ok(Box::new(Offsets { inner: self.0.offsets()?, broker: self.0.clone() }))
    }

    fn admin_with(&self, options: &AdminOptions) -> Result<Box<dyn Admin>> {
        self.0.admin_with(options)
    }

    fn group_link(&self, group: &str) -> Result<Box<dyn Link>> {
        self.0.group_link(group)
    }
}

struct Offsets {
    inner: Box<dyn GroupOffsets>,
    broker: EmbeddedBroker,
}

impl GroupOffsets for Offsets {
    fn commit(&mut self, member: &Member, offsets: &[GroupOffset<'_>], max_wait: Duration) -> CommitOutcome {
        self.inner.commit(member, offsets, max_wait)
    }

    fn fetch_stable(&mut self, group: &str, of: &[(&str, i32)], max_wait: Duration) -> Result<Stable> {
        let stable = self.inner.fetch_stable(group, of, max_wait)?;
        if let Stable::Offsets(_) = stable {
            return Ok(stable);
        }
        let known = self.broker.group(group).map(|g| g.offsets).unwrap_or_default();
        let find = |(topic, partition): &(&str, i32)| {
            known.iter().find(|(t, p, _)| t == topic && p == partition).map(|(.., committed)| committed.clone())
        };
        Ok(Stable::Offsets(of.iter().map(find).collect()))
    }
}
